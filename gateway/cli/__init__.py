"""The commands of `nim-gateway`, one file each."""

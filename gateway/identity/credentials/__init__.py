"""What a request carries to prove who calls, as it is written."""

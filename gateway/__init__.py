"""nim-gateway: an authenticating gateway in front of NVIDIA NIM and Triton endpoints."""

__version__ = "0.1.0"

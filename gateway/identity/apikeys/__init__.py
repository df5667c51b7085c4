"""API keys: their form, their file, and the identity behind them."""

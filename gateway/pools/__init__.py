"""Backends and pools: health, ejection, balancing, retry budgets."""

"""Hand-written gradients and hashes, each beside its plain formula."""

"""Hand-written gradients and hashes, each beside the plain formula that its test uses."""

"""Devices and processes: strategies, TPUs, and clusters of workers."""

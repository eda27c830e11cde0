"""Controlled hyperparameter sweeps for language-model fine-tuning."""

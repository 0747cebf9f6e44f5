"""Front ends: each reads one format of models and makes our Graph of it."""

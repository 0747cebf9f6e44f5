"""The streaming form of a model: a few steps of time go in and out at each run, and what the model
would compute twice is kept from one run to the next."""

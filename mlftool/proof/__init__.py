"""What is proven of a module, independently of the planner and the emitters that made it."""

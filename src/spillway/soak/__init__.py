"""Break it at random: schedules of faults that follow from a seed, and a judge of what came of them."""

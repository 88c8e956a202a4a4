"""The model held against reality: a graph really run in processes that are really killed, as often as the model says.

Theory. A protection is put to the test in a *way* (`ways`): the graph is cut into jobs, each job is a process of the
local runtime (`job_process`), with the same stream logs, seats, backups and shards as on Spark; only that a process
starts again in milliseconds, where a Spark driver takes seconds, so that hundreds of seconds are enough. Tuples arrive
by the clock. Processes are killed with their memory at moments drawn from the model's own law (`world`), exponential
and independent for each; a killed one is started again after the recovery time, as the job manager of System S does.

What is measured is told by two things: who was heard when, and what the sinks wrote, tuple by tuple, beside what the
graph puts out undisturbed in one process (`judging`). An instant is *available* if every job has a copy that is heard
and alive, and what was put out of the tuples of that instant is right, but for a tolerated share.

What the model must be told of the graph is measured apart from that, with single faults and no process killed: costs
and selectivities by a profile of the very batches that are measured, and how many tuples a state takes to be right
again after a loss (`fitting`, the formula of seed 001, 5.5.1). Recovery and failover times are those measured in the
runs. The model is then simulated for the same rates and as long, many times, and says in which interval 95 of 100 such
runs lie (`predicting`).
"""

"""The step: input, requests, plan, watermark, tasks, commit, recovery."""

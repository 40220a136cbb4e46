"""Jobs and CronJobs: pods until enough of them succeed; an ended pod is never counted twice."""

import { type AgentQueue, operatorTenantId, type QueueName, type RunId, type TenantId } from "../domain/ids.js";
import type { JobQueues } from "../platform/job-queue.js";
import type { Service } from "../platform/lifecycle.js";
import type { Parked } from "../runs/parked.js";

// The second way of waking: BullMQ carries the hints of shared pools between processes. One fetch loop a queue, running only while a GetJob of that
// queue is parked here. A tenant's own pool is woken over the live channel and needs no queue.

export function jobQueueName(queue: QueueName): string {
  return `runs.${queue.kind}`;
}

export function usesJobQueue(queue: QueueName): boolean {
  return queue.poolId === operatorTenantId;
}

export function startJobFetching(queues: JobQueues, parked: Parked): Service {
  parked.onChange((queue, isParked) => {
    if (!usesJobQueue(queue)) return;
    const name = jobQueueName(queue);
    if (!isParked) queues.unwant(name);
    else
      queues.want(name, (job) =>
        parked.take({ ...queue, graphId: job.graphId }, job.tenantId as TenantId, job.runId as RunId),
      );
  });
  return { name: "job fetching", stop: () => {} };
}

/** Hands a run to its queue, if its pool has one. Equal (run, dispatch) pairs are one job. */
export function enqueueRun(
  queues: JobQueues,
  queue: AgentQueue,
  tenantId: TenantId,
  runId: RunId,
  dispatchNo: number,
): void {
  if (usesJobQueue(queue))
    queues.add(jobQueueName(queue), `${tenantId}.${runId}.${dispatchNo}`, { tenantId, runId, graphId: queue.graphId });
}

-- What the questions ask of, for every engine: run after the engine's own views.
-- The last that was heard of each host.
CREATE OR REPLACE VIEW latest AS
SELECT host AS host, max(time) AS time FROM hosts GROUP BY host;

-- Each recording of a virtual machine once, with what its exits are divided by.
CREATE OR REPLACE VIEW recordings AS
SELECT host, vm, pid, dt, time, recording,
       sum(count) AS exits,
       sum(CASE WHEN verdict = 'avoidable' THEN count ELSE 0 END) AS avoidable,
       max(vcpus) * max(recorded_seconds) AS vcpu_seconds
FROM exits
GROUP BY host, vm, pid, dt, time, recording;

-- How many exits does a vCPU have in a second, on days with the feature off and with it on?
SELECT r.host AS host, r.vm AS vm,
       sum(CASE WHEN v.active = 'no' THEN r.exits ELSE 0 END)
           / sum(CASE WHEN v.active = 'no' THEN r.vcpu_seconds ELSE 0 END) AS off_per_second,
       sum(CASE WHEN v.active = 'yes' THEN r.exits ELSE 0 END)
           / sum(CASE WHEN v.active = 'yes' THEN r.vcpu_seconds ELSE 0 END) AS on_per_second
FROM recordings AS r JOIN vms AS v ON r.host = v.host AND r.vm = v.vm AND r.dt = v.dt
GROUP BY r.host, r.vm
HAVING count(DISTINCT v.active) > 1
ORDER BY host, vm;

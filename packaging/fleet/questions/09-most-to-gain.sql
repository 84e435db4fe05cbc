-- Which virtual machines have most exits that hardware could take away?
SELECT host, vm,
       sum(avoidable) / sum(vcpu_seconds) AS avoidable_per_vcpu_second,
       sum(avoidable) / sum(exits) AS share_of_exits
FROM recordings
GROUP BY host, vm
HAVING sum(avoidable) > 0
ORDER BY avoidable_per_vcpu_second DESC, host, vm
LIMIT 50;

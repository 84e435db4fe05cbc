-- From which hosts has nothing been heard on the last day, and what ran there?
SELECT host, CAST(max(time) AS VARCHAR) AS last_heard, max(version) AS version, max(kernel) AS kernel
FROM hosts
GROUP BY host
HAVING max(dt) < (SELECT max(dt) FROM hosts)
ORDER BY last_heard, host;

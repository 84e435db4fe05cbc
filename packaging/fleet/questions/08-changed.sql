-- Which hosts did not stay as they were?
SELECT host, CAST(min(time) AS VARCHAR) AS since, CAST(max(time) AS VARCHAR) AS until,
       count(DISTINCT active) AS answers, count(DISTINCT kernel) AS kernels, count(DISTINCT fix) AS remedies
FROM hosts
GROUP BY host
HAVING count(DISTINCT active) > 1 OR count(DISTINCT kernel) > 1
ORDER BY host;

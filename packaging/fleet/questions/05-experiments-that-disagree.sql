-- Which experiments say one thing on some hosts and another on others?
SELECT experiment, plan, workload, metric,
       count(DISTINCT CASE WHEN verdict = 'better' THEN host END) AS better,
       count(DISTINCT CASE WHEN verdict = 'worse' THEN host END) AS worse,
       count(DISTINCT host) AS hosts,
       min(effect_percent) AS least_percent, max(effect_percent) AS most_percent
FROM outcomes
GROUP BY experiment, plan, workload, metric
HAVING count(DISTINCT verdict) > 1
ORDER BY experiment, plan, workload, metric;

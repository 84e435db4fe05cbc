-- Which virtual machines are inhibited, by which line, and for how long?
SELECT host, vm, reason, max(because) AS because, max(fix) AS fix,
       count(DISTINCT dt) AS days,
       sum(inhibited_seconds) / sum(watched_seconds) AS share_of_time_watched
FROM inhibits
GROUP BY host, vm, reason
ORDER BY days DESC, host, vm, reason;

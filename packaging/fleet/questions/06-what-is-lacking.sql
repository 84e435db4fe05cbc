-- What do hosts lack that no setting of the operating system gives?
SELECT f.item AS item, f.needs AS needs, count(DISTINCT f.host) AS hosts, max(f.reason) AS reason
FROM findings AS f JOIN latest AS l ON f.host = l.host AND f.time = l.time
WHERE f.answer = 'no' AND f.severity <> 'note' AND f.follows IS NULL
  AND (f.needs IS NULL OR f.needs IN ('firmware', 'other hardware'))
GROUP BY f.item, f.needs
ORDER BY hosts DESC, item;

-- Which lines, changed, would help most hosts, and what do they cost?
SELECT f.fix AS fix, f.needs AS needs, count(DISTINCT f.host) AS hosts
FROM findings AS f JOIN latest AS l ON f.host = l.host AND f.time = l.time
WHERE f.answer = 'no' AND f.severity <> 'note' AND f.follows IS NULL AND f.fix IS NOT NULL
GROUP BY f.fix, f.needs
ORDER BY hosts DESC, fix;

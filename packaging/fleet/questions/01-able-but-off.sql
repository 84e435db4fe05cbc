-- Who could, but does not?
SELECT h.host AS host, h.kernel AS kernel, h.cpu_brand AS cpu, h.state AS state, h.fix AS fix, h.needs AS needs
FROM hosts AS h JOIN latest AS l ON h.host = l.host AND h.time = l.time
WHERE h.hardware = 'yes' AND h.active = 'no'
ORDER BY host;

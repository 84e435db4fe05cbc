-- Which kernels have known faults, and on how many hosts do they run?
SELECT f.kernel AS kernel, f.item AS fault, max(f.reason) AS what, count(DISTINCT f.host) AS hosts
FROM findings AS f JOIN latest AS l ON f.host = l.host AND f.time = l.time
WHERE f.answer = 'no'
  AND f.item IN ('kvm-x2apic-cluster', 'guest-wrmsr-fence', 'iommu-entry-flush', 'cpu-erratum-1235', 'kvm-nested')
GROUP BY f.kernel, f.item
ORDER BY hosts DESC, kernel, fault;

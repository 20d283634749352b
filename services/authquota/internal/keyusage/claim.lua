-- Claims the restore of a day for one process at a time. A new claim discards the counters of an unfinished restore.
-- KEYS  1 hash of the day    2 hash of the counters restored so far    3 lease
-- ARGV  1 token of the claim    2 time to live of the lease in milliseconds
-- Returns 'exists' if the day is not missing, 'claimed', or 'busy' while another process restores it.

if redis.call('EXISTS', KEYS[1]) == 1 then return 'exists' end
if not redis.call('SET', KEYS[3], ARGV[1], 'NX', 'PX', ARGV[2]) then return 'busy' end
redis.call('UNLINK', KEYS[2])
return 'claimed'

-- Adds counters to a restore, and renews its lease. Running it again has no effect.
-- KEYS  1 hash of the counters restored so far    2 lease
-- ARGV  1 token of the claim    2, 3 time to live of the lease and of the hash in milliseconds
--       4 number of counters restored so far    then field, value, ...
-- Returns 1, or 0 if the claim or counters were lost: Redis lost data, or another process claimed the restore.

local before, restored = tonumber(ARGV[4]), redis.call('HLEN', KEYS[1])
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
if restored ~= before and restored ~= before + (#ARGV - 4) / 2 then return 0 end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('HSET', KEYS[1], unpack(ARGV, 5))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1

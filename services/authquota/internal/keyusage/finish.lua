-- Puts the restored counters in place of the missing day, without those of merged accounts, in one step. Running it again has no
-- effect.
-- KEYS  1 hash of the day    2 hash of the restored counters
-- ARGV  1 number of restored counters    2 field of all accounts    3 time to live of the day in milliseconds
--       then merged accounts: the accounts that they were merged into have their counts
-- Returns 1 if the day has counters, or 0 if Redis has lost some of the restored ones.

local day, restored = KEYS[1], KEYS[2]
local exists = redis.call('EXISTS', day)
if exists == 1 or redis.call('HLEN', restored) ~= tonumber(ARGV[1]) then
  redis.call('UNLINK', restored)
  return exists
end
for i = 4, #ARGV do redis.call('HDEL', restored, ARGV[i]) end
redis.call('HSETNX', restored, ARGV[2], 0)
redis.call('RENAME', restored, day)
redis.call('PEXPIRE', day, ARGV[3])
return 1

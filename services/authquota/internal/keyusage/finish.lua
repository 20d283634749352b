-- Puts the restored counters in place of the missing day, without those of merged accounts, in one step.
-- KEYS  1 hash of the day    2 hash of the restored counters    3 lease
-- ARGV  1 token of the claim    2 number of restored counters    3 field of all accounts    4 time to live of the day in milliseconds
--       then merged accounts: the accounts that they were merged into have their counts
-- Returns 1, or 0 if the claim or counters were lost (see fill.lua), or if it runs again.

local day, restored = KEYS[1], KEYS[2]
if redis.call('GET', KEYS[3]) ~= ARGV[1] or redis.call('HLEN', restored) ~= tonumber(ARGV[2]) then return 0 end
redis.call('DEL', KEYS[3])
if redis.call('EXISTS', day) == 1 then
  redis.call('UNLINK', restored)
  return 1
end
for i = 5, #ARGV do redis.call('HDEL', restored, ARGV[i]) end
redis.call('HSETNX', restored, ARGV[3], 0)
redis.call('RENAME', restored, day)
redis.call('PEXPIRE', day, ARGV[4])
return 1

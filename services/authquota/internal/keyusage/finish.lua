-- Applies the moves of a day to its restored counters and puts them in place of the missing day, in one step.
-- KEYS  1 hash of the day    2 hash of the restored counters    3 lease    4 hash of the moves that the ledger lacks
-- ARGV  1 token of the claim    2 number of restored counters    3 field of all accounts    4 time to live of the day in milliseconds
--       then for each move: source account, target account, marker
-- Returns 1, or 0 if the claim or counters were lost (see fill.lua), or if it runs again.
--
-- A move whose marker is in the ledger is included in its counters; see usage.Moved.

local day, restored = KEYS[1], KEYS[2]
if redis.call('GET', KEYS[3]) ~= ARGV[1] or redis.call('HLEN', restored) ~= tonumber(ARGV[2]) then return 0 end
redis.call('DEL', KEYS[3])
if redis.call('EXISTS', day) == 1 then
  redis.call('UNLINK', restored)
  return 1
end
for i = 5, #ARGV, 3 do
  local from, to, mark = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if redis.call('HSETNX', restored, mark, 1) == 1 then
    local calls = tonumber(redis.call('HGET', restored, from) or '0')
    if calls > 0 then redis.call('HINCRBY', restored, to, calls) end
    redis.call('HSET', KEYS[4], mark, to)
    redis.call('PEXPIRE', KEYS[4], ARGV[4])
  end
  redis.call('HDEL', restored, from)
end
redis.call('HSETNX', restored, ARGV[3], 0)
redis.call('RENAME', restored, day)
redis.call('PEXPIRE', day, ARGV[4])
return 1

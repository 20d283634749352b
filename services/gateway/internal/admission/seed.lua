-- Creates the hash of a day: from the ledger, or with zeros before the day starts. An existing hash is left alone, because it is
-- newer than the ledger.
--
-- KEYS  1 hash of the day    2 hash of the clock, see clock.lua
-- ARGV  1 time to live in milliseconds
--       2 time in microseconds from which on nothing is created; empty for no limit    3 as ARGV 5 of admit.lua    then field, value, ...
-- Replies 1 if the hash was created, 0 otherwise.

if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local before = tonumber(ARGV[2])
if before then
  local clock = tonumber(ARGV[3])
  if not clock then
    local time = redis.call('TIME')
    clock = time[1] * 1000000 + time[2]
  end
  if clock + (redis.call('HGET', KEYS[2], 'correction') or 0) >= before then return 0 end
end
for first = 4, #ARGV, 1000 do -- unpack is limited to a few thousand values
  redis.call('HSET', KEYS[1], unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1

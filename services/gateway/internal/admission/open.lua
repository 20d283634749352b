-- Creates the hash of a day with zero calls, unless it exists or the day has started.
--
-- KEYS  1 hash of the day    2 hash of the clock, see clock.lua
-- ARGV  1 time to live in milliseconds    2 start of the day in microseconds    3 as ARGV 5 of admit.lua    4 field of all accounts
-- Replies 1 if the hash was created, 0 otherwise.

local clock = tonumber(ARGV[3])
if not clock then
  local time = redis.call('TIME')
  clock = time[1] * 1000000 + time[2]
end
if clock + (redis.call('HGET', KEYS[2], 'correction') or 0) >= tonumber(ARGV[2]) then return 0 end
if redis.call('HSETNX', KEYS[1], ARGV[4], 0) == 0 then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1

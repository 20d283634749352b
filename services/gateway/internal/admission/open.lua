-- Creates the hash of a day with zero calls, unless it exists. If the day has started, only while no call was charged to it: the latest
-- day with a charge must be ARGV 5.
--
-- KEYS  1 hash of the day    2 hash of the clock, see clock.lua
-- ARGV  1 time to live in milliseconds    2 start of the day in microseconds    3 as ARGV 5 of admit.lua    4 field of all accounts
--       5 the day before, counted from 1970-01-01; empty to create only the hash of a day that has not started
-- Replies 1 if the hash exists now, 0 otherwise.

local clock = tonumber(ARGV[3])
if not clock then
  local time = redis.call('TIME')
  clock = time[1] * 1000000 + time[2]
end
local stored = redis.call('HMGET', KEYS[2], 'correction', 'charged')
local correction = stored[1] and string.match(stored[1], '^%-?%d+$') and #stored[1] <= 16 and tonumber(stored[1]) or 0
if clock + correction >= tonumber(ARGV[2]) and stored[2] ~= ARGV[5] then return 0 end
if redis.call('HSETNX', KEYS[1], ARGV[4], 0) == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 1

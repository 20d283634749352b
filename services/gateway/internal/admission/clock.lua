-- Decides which time admissions use after the Redis clock stepped: the Redis clock, or the time that continues as before the step.
-- The one nearer to the gateway's own clock wins; the Redis clock if they are equally near. So a step away from the right time is
-- not followed, and a step back to it is.
--
-- KEYS  1 hash of the clock: 'correction' is added to the Redis clock, in microseconds; 'decided' is the Redis time of the latest
--         decision; 'future' and 'charged' belong to admit.lua
-- ARGV  1 the time that continues as before, in microseconds; empty if unknown    2 the gateway's own clock
--       3 the Redis clock, in tests only; otherwise empty
-- Replies the Redis clock and the correction.

local AHEAD, SECOND = 5 * 1000000, 1000000
local function number(text) return text and string.match(text, '^%-?%d+$') and #text <= 16 and tonumber(text) or nil end
local redis_clock = tonumber(ARGV[3])
if not redis_clock then
  local time = redis.call('TIME')
  redis_clock = time[1] * SECOND + time[2]
end
local stored = redis.call('HMGET', KEYS[1], 'correction', 'decided')
local correction, decided = number(stored[1]) or 0, number(stored[2])
local expected = tonumber(ARGV[1]) or redis_clock + correction

-- Gateways adopt the decision of the one that noticed the step first, so that they never disagree.
local recent = decided and redis_clock >= decided and redis_clock - decided < 10 * SECOND
if not recent and (correction ~= 0 or math.abs(redis_clock - expected) > AHEAD) then
  local own = tonumber(ARGV[2])
  correction = 0
  if math.abs(expected - own) + SECOND < math.abs(redis_clock - own) then correction = expected - redis_clock end
  redis.call('HSET', KEYS[1], 'correction', string.format('%.0f', correction), 'decided', string.format('%.0f', redis_clock))
  redis.call('PEXPIRE', KEYS[1], 2 * 86400 * 1000)
end
return { redis_clock, correction }

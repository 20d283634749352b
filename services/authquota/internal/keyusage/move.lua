-- Adds an account's usage of a day to the account that it was merged into. Running it again has no effect.
--
-- KEYS  1 hash of epochs    2 hash of merged accounts    3 hash of the day's counts
--       4 window of the source account    5 window of the target account: admission times, newest first
--       6 set of changed fields of the day
-- ARGV  1 source account    2 target account    3, 4 TTL of hashes 1 and 2 in seconds; set 6 has that of 2
--
-- It does not create the hash of a day that Redis lacks, because the creator restores it from the ledger.
-- The same step increments the epoch, so that no request is charged to the source account afterwards.

local epochs, merged, day = KEYS[1], KEYS[2], KEYS[3]
local from, to = ARGV[1], ARGV[2]

-- Returns a stored whole number of at most 16 digits, or 0 for anything else: another program may have written it.
local function number(text) return text and string.match(text, '^%d+$') and #text <= 16 and tonumber(text) or 0 end

local old = number(redis.call('HGET', epochs, from))
local t = redis.call('TIME')
redis.call('HSET', epochs, from, string.format('%.0f', math.max(old + 1, t[1] * 1000000 + t[2])))
redis.call('EXPIRE', epochs, ARGV[3])
redis.call('HSET', merged, from, to) -- target of later refunds
redis.call('EXPIRE', merged, ARGV[4])

-- Merge the windows. The source window is empty when this runs again.
local moved = redis.call('LRANGE', KEYS[4], '0', '-1')
if #moved > 0 then
  local kept = redis.call('LRANGE', KEYS[5], '0', '-1')
  local life = math.max(redis.call('PTTL', KEYS[4]), redis.call('PTTL', KEYS[5]))
  redis.call('DEL', KEYS[4], KEYS[5])
  local i, j = 1, 1
  while i <= #moved or j <= #kept do
    if not kept[j] or (moved[i] and number(moved[i]) > number(kept[j])) then
      redis.call('RPUSH', KEYS[5], moved[i])
      i = i + 1
    else
      redis.call('RPUSH', KEYS[5], kept[j])
      j = j + 1
    end
  end
  redis.call('PEXPIRE', KEYS[5], string.format('%.0f', life))
end

-- Returns a stored count, or 0 for what is none: the ledger has at most 31 bits.
local function count(text)
  local calls = number(text)
  return calls < 2^31 and calls or 0
end

local calls = count(redis.call('HGET', day, from))
if calls > 0 then
  local sum = math.min(2^31 - 1, count(redis.call('HGET', day, to)) + calls)
  redis.call('HSET', day, to, string.format('%.0f', sum))
  redis.call('SADD', KEYS[6], to)
  redis.call('EXPIRE', KEYS[6], ARGV[4])
end
redis.call('HDEL', day, from)
return 1

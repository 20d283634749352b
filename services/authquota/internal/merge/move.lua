-- Adds what an account used on a day to what the account used that has taken it over: once, however often it is run.
--
-- KEYS  1 hash of epochs    2 hash of accounts that were taken over    3 hash of the calls of the day
--       4 window of the account that was taken over    5 window of the other: times of admission, newest first
-- ARGV  1 the account that was taken over    2 the one that took it over    3 the mark of the move in the hash of the day
--       4, 5 life of the hashes 1 and 2 in seconds
-- Replies 1 where the hash of the day has the move, 0 where there is no such hash: it must not be made here, because whoever makes it
-- fills it from the ledger.
--
-- The epoch is raised in the same step, as raise.lua does: nobody is charged to the account after its calls were moved.

local epochs, merged, day = KEYS[1], KEYS[2], KEYS[3]
local from, to, mark = ARGV[1], ARGV[2], ARGV[3]

local old = tonumber(redis.call('HGET', epochs, from) or '0')
local t = redis.call('TIME')
redis.call('HSET', epochs, from, string.format('%.0f', math.max(old + 1, t[1] * 1000000 + t[2])))
redis.call('EXPIRE', epochs, ARGV[4])
redis.call('HSET', merged, from, to) -- where calls go that are given back later
redis.call('EXPIRE', merged, ARGV[5])

-- The windows become one. Nothing is left to move when this is run again.
local moved = redis.call('LRANGE', KEYS[4], '0', '-1')
if #moved > 0 then
  local kept = redis.call('LRANGE', KEYS[5], '0', '-1')
  local life = math.max(redis.call('PTTL', KEYS[4]), redis.call('PTTL', KEYS[5]))
  redis.call('DEL', KEYS[4], KEYS[5])
  local i, j = 1, 1
  while i <= #moved or j <= #kept do
    if not kept[j] or (moved[i] and tonumber(moved[i]) > tonumber(kept[j])) then
      redis.call('RPUSH', KEYS[5], moved[i])
      i = i + 1
    else
      redis.call('RPUSH', KEYS[5], kept[j])
      j = j + 1
    end
  end
  redis.call('PEXPIRE', KEYS[5], string.format('%.0f', life))
end

if redis.call('EXISTS', day) == 0 then return 0 end
if redis.call('HEXISTS', day, mark) == 1 then return 1 end
local calls = tonumber(redis.call('HGET', day, from) or '0')
if calls > 0 then redis.call('HINCRBY', day, to, calls) end
redis.call('HDEL', day, from)
redis.call('HSET', day, mark, 1)
return 1

-- Admits one call or says why not: checks every limit, then spends all or nothing. rule.go states the same rule in Go.
--
-- KEYS  1 hash of epochs by account
--       2 the account's window: times of admission in microseconds, newest first
--       3 hash of the calls of a day by account
-- ARGV  1 account    2 the epoch that the caller's knowledge of the account has
--       3 calls a minute    4 calls a day    5 calls a day of all accounts together
--       6 the day of KEYS[3], counted from 1970-01-01    7 field of all accounts in it
--       8 in tests only: the time in microseconds
--
-- Replies 'epoch': the knowledge is out of date. 'day', day: it is that day by this clock. 'seed': the day has no hash yet.
-- 'admitted' | 'refused', clock, calls of the account today, its calls in the window, microseconds until the window has
-- more room, calls of all accounts today.
--
-- Every command costs about as much as all arithmetic together, so there are no more than needed. Times are formatted
-- because Lua writes large numbers with an exponent; counts are small enough to be passed on as they are.

local MINUTE, DAY = 60 * 1000000, 86400 * 1000000
local STEP = 30 * 1000000 -- see the end

local call = redis.call
local epochs, window, today, account = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local per_minute, per_day, capacity = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

if call('HGET', epochs, account) ~= ARGV[2] then return { 'epoch' } end

local clock = tonumber(ARGV[8])
if not clock then
  local time = call('TIME')
  clock = time[1] * 1000000 + time[2]
end
-- A clock that is set back must not make the window forget: for the account time stands still until the clock has caught up.
local now, newest = clock, tonumber(call('LINDEX', window, '0') or nil)
if newest and newest > now then now = newest end

local into_day = now - ARGV[6] * DAY
if into_day < 0 or into_day >= DAY then return { 'day', (now - now % DAY) / DAY } end
local spent = call('HMGET', today, account, ARGV[7])
if not spent[2] then return { 'seed' } end
local used, all = tonumber(spent[1] or 0), tonumber(spent[2])

-- The window without what is older than a minute. A refusal leaves that in place: the clock may yet be set back.
local length, recent, oldest = 0, 0, nil
if newest then
  length, oldest = call('LLEN', window), call('LINDEX', window, '-1')
  recent = length
  while oldest and now - oldest >= MINUTE do
    recent = recent - 1
    oldest = recent > 0 and call('LINDEX', window, recent - 1)
  end
end
if recent >= per_minute then oldest = call('LINDEX', window, per_minute - 1) end
local room = (oldest or now) + MINUTE - clock

if all >= capacity or used >= per_day or recent >= per_minute then
  return { 'refused', clock, used, recent, room, all }
end

call('HSET', today, account, used + 1, ARGV[7], all + 1)
call('LPUSH', window, string.format('%.0f', now))
if recent < length then call('LTRIM', window, 0, recent) end
-- The window lives until its last entry has left it. Only the first call of each half minute sets that time, far enough for
-- all calls of the same half minute.
if not newest or now - now % STEP ~= newest - newest % STEP then
  call('PEXPIRE', window, string.format('%.0f', (now - clock + MINUTE + STEP) / 1000 + 1000))
end
return { 'admitted', clock, used + 1, recent + 1, room, all + 1 }

-- Admits a batch of calls in order. Each call is checked against every limit and then charged to all of them or to none. rule_test.go
-- states the rule for one call in Go.
--
-- KEYS  1 hash of epochs by account
--       2 hash of the calls of a day by account
--       3 hash of the clock, see clock.lua
--       4 set of the fields of KEYS[2] that the ledger lacks
--       then for each call its account's window: times of admission in microseconds, newest first
-- ARGV  1 the day of KEYS[2], counted from 1970-01-01    2 its field with the calls of all accounts
--       3 its field with the time of the latest admission
--       4 calls a day of all accounts together    5 the Redis clock in microseconds, in tests only; otherwise empty
--       6, 7 earliest and latest time in microseconds at which the batch may be charged; empty if unknown
--       8 the field of KEYS[2] with the calls of the base tier    9 calls a day of the base tier together
--       then for each call: account, epoch of the cached principal, calls a minute, calls a day, 1 for the base tier or 0
--
-- Replies for each call:
--   'late'           the clock is outside that range, because the batch is late or the clock stepped; every call gets this reply
--   'epoch'          the cached principal is out of date
--   'day', day       the clock is on that day instead of the day of ARGV 1
--   'missing'        the day has no hash
--   "admitted" | "refused", clock, calls of the account today, its calls in the window, microseconds until the window has more
--                    room, calls of all accounts today, calls of the base tier today
-- The last element of the reply is { Redis clock, correction }; the time used is their sum.
--
-- Redis commands dominate the run time, so the script issues as few as possible. Times are formatted because Lua writes large numbers
-- with an exponent; counts are small enough to pass as they are.

local MINUTE, DAY, STEP, AHEAD = 60 * 1000000, 86400 * 1000000, 1800 * 1000000, 5 * 1000000

local call, format = redis.call, string.format

-- Returns a stored whole number of at most 16 digits, or nil for anything else: another program may have written it.
local function number(text) return text and string.match(text, '^%-?%d+$') and #text <= 16 and tonumber(text) or nil end

-- Returns a stored count of calls, or nil.
local function calls_of(text)
  local n = number(text)
  return n and n >= 0 and n < 2147483648 and n or nil
end

local today, service, latest, base = KEYS[2], ARGV[2], ARGV[3], ARGV[8]
local starts, capacity, base_capacity, redis_clock = ARGV[1] * DAY, tonumber(ARGV[4]), tonumber(ARGV[9]), tonumber(ARGV[5])
if not redis_clock then
  local time = call('TIME')
  redis_clock = time[1] * 1000000 + time[2]
end
local steps = call('HMGET', KEYS[3], 'correction', 'future', 'charged')
local correction, future, latest_day = number(steps[1]) or 0, number(steps[2]), number(steps[3]) or 0
local clock = redis_clock + correction

local accounts, replies, count = {}, {}, #KEYS - 4
replies[count + 1] = { redis_clock, correction }
if clock < (tonumber(ARGV[6]) or clock) or clock > (tonumber(ARGV[7]) or clock) then
  for i = 1, count do replies[i] = { 'late' } end
  return replies
end
for i = 1, count do accounts[i] = ARGV[5 * i + 5] end
local epochs = call('HMGET', KEYS[1], unpack(accounts))
local counts = call('HMGET', today, service, latest, base, unpack(accounts))
local all, of_base, base_charged, used, charged = calls_of(counts[1]), calls_of(counts[3] or '0'), false, {}, {}
for i, account in ipairs(accounts) do used[account] = calls_of(counts[i + 3] or '0') end
-- A count that cannot be one is lost, as after a loss of data: the ledger has it.
for i = 1, count + 3 do
  if i ~= 2 and counts[i] and not calls_of(counts[i]) then all = nil end
end
if not all and counts[1] then call('DEL', today) end

-- If the clock is up to AHEAD behind the latest admission, use that as the time, so the windows keep all entries. If it is further
-- behind, it ran ahead before: entries from the future stop counting. Until the clock has passed them, every window is checked for them.
local now, newest = clock, number(counts[2])
if newest and newest > clock + AHEAD then
  if newest > (future or 0) then
    future = newest
    call('HSET', KEYS[3], 'future', format('%.0f', future))
    call('PEXPIRE', KEYS[3], 2 * DAY / 1000)
  end
  call('HDEL', today, latest)
elseif newest and newest > clock then
  now = newest
end
local stamp, ran_ahead = format('%.0f', now), future and future > clock

-- Returns an entry of a window, or nil without one. One that is no time is long past.
local function entry(window, at)
  local text = call('LINDEX', window, at)
  return text and (number(text) or 0)
end

-- Returns the oldest entry of a window, after removing those from the future.
local function oldest_of(window)
  local tail = entry(window, '-1')
  if tail and (ran_ahead or tail > clock + AHEAD) then
    while (entry(window, '0') or 0) > now do call('LPOP', window) end
    tail = entry(window, '-1')
  end
  return tail
end

local function admit(window, account, per_minute, per_day, is_base)
  if now < starts or now >= starts + DAY then return { 'day', (now - now % DAY) / DAY } end
  if not all then return { 'missing' } end

  -- Count the window without entries older than a minute. Rejected calls leave those in place: the clock may still step back.
  local length, recent, oldest = 0, 0, nil
  local tail = oldest_of(window)
  if tail then
    length, oldest = call('LLEN', window), tail
    recent = length
    while oldest and now - oldest >= MINUTE do
      recent = recent - 1
      oldest = recent > 0 and entry(window, recent - 1)
    end
  end
  if recent >= per_minute then
    local room = math.max(0, math.min(entry(window, per_minute - 1) + MINUTE - clock, MINUTE + AHEAD))
    return { 'refused', clock, used[account], recent, room, all, of_base }
  end
  local room = (oldest or now) + MINUTE - clock
  if all >= capacity or (is_base and of_base >= base_capacity) or used[account] >= per_day then
    return { 'refused', clock, used[account], recent, room, all, of_base }
  end

  call('LPUSH', window, stamp)
  if recent < length then call('LTRIM', window, '0', recent) end
  -- The key must live until its newest entry is a minute old, even if the Redis clock, which expires keys, steps an hour ahead. To
  -- save a command, only calls that find the window empty or move its oldest entry into another half hour set the expiry.
  local first = oldest or now
  if not tail or tail - tail % STEP ~= first - first % STEP then
    call('PEXPIRE', window, format('%.0f', (now - clock + MINUTE + 5 * STEP) / 1000))
  end
  all, used[account], charged[account] = all + 1, used[account] + 1, true
  if is_base then of_base, base_charged = of_base + 1, true end
  return { 'admitted', clock, used[account], recent + 1, room, all, of_base }
end

for i, account in ipairs(accounts) do
  local at = 5 * i + 5
  if epochs[i] ~= ARGV[at + 1] then
    replies[i] = { 'epoch' }
  else
    replies[i] = admit(KEYS[i + 4], account, tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), ARGV[at + 4] == '1')
  end
end

local changes, names = {}, { service }
for account in pairs(charged) do
  changes[#changes + 1] = account
  changes[#changes + 1] = used[account]
  names[#names + 1] = account
end
if base_charged then
  changes[#changes + 1] = base
  changes[#changes + 1] = of_base
  names[#names + 1] = base
end
if #changes > 0 then
  call('HSET', today, service, all, latest, stamp, unpack(changes))
  local added = call('SADD', KEYS[4], unpack(names))
  if added == #names then call('PEXPIRE', KEYS[4], 3 * DAY / 1000) end -- the set may be new
  if latest_day < tonumber(ARGV[1]) then -- open.lua compares it
    call('HSET', KEYS[3], 'charged', ARGV[1])
    call('PEXPIRE', KEYS[3], 3 * DAY / 1000)
  end
end
return replies

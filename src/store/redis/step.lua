-- One unit sold, or one counted: the number and its row, both or neither.
-- KEYS: the item, its rows, the names of its rows.
-- ARGV: guard, field, step, what was seen, fencing token, row.
-- Answer: replaced, left, rows, rejected.
local item, rows, names = KEYS[1], KEYS[2], KEYS[3]
local guard, field, row = ARGV[1], ARGV[2], ARGV[6]
local step, name, fence = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local replaced = tonumber(redis.call('HGET', item, field))
if not replaced then
  return redis.error_reply('the key ' .. item .. ' is gone')
end
local refused = { replaced, replaced, 0, 1 }
if guard == 'fence' then
  if fence < tonumber(redis.call('HGET', item, 'fence')) then return refused end
  redis.call('HSET', item, 'fence', fence)
elseif guard == 'conditional' then
  if field == 'units' and replaced <= 0 then return refused end
  name = replaced
elseif guard == 'unique' then
  if redis.call('HSETNX', names, name, row) == 0 then return refused end
end
redis.call('HSET', item, field, name + step)
redis.call('HINCRBY', item, 'version', 1)
redis.call('RPUSH', rows, row)
return { replaced, name + step, 1, 0 }

-- Posts the entries of an account, and marks them.
-- KEYS: the account, its postings, how often each entry was posted.
-- ARGV: guard, fencing token, row.
-- Answer: replaced, left, rows, rejected.
local account, rows, posted = KEYS[1], KEYS[2], KEYS[3]
local guard, fence, row = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local replaced = tonumber(redis.call('HGET', account, 'open'))
if not replaced then
  return redis.error_reply('the key ' .. account .. ' is gone')
end
if guard == 'fence' then
  if fence < tonumber(redis.call('HGET', account, 'fence')) then
    return { replaced, replaced, 0, 1 }
  end
  redis.call('HSET', account, 'fence', fence)
end
local once = guard == 'unique' or guard == 'conditional'
local added, rejected = 0, 0
for entry = 1, tonumber(redis.call('HGET', account, 'initial')) do
  if once and redis.call('HSETNX', posted, entry, 1) == 0 then
    rejected = rejected + 1
  else
    if not once then redis.call('HINCRBY', posted, entry, 1) end
    redis.call('RPUSH', rows, row)
    added = added + 1
  end
end
if added == 0 then
  return { replaced, replaced, 0, rejected }
end
redis.call('HSET', account, 'open', 0)
redis.call('HINCRBY', account, 'version', 1)
return { replaced, 0, added, rejected }

-- What the business has now. ARGV: prefix, items, field.
-- Answer: the initial sum, what is left of it, rows, rows beyond the initial number (item by
-- item), rows short of it, entries posted more than once, entries never posted.
local prefix, items, field = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local initial, left, rows, beyond, short, twice, never = 0, 0, 0, 0, 0, 0, 0
for item = 0, items - 1 do
  local key = prefix .. item
  local held = redis.call('HMGET', key, 'initial', field)
  if not held[1] then
    return redis.error_reply('the key ' .. key .. ' is gone')
  end
  local of_item = redis.call('LLEN', key .. ':rows')
  local more = of_item - tonumber(held[1])
  initial, left, rows = initial + held[1], left + held[2], rows + of_item
  beyond, short = beyond + math.max(more, 0), short + math.max(-more, 0)
  if field == 'open' then
    local counts = redis.call('HVALS', key .. ':names')
    never = never + held[1] - #counts
    for _, count in ipairs(counts) do
      if tonumber(count) > 1 then twice = twice + 1 end
    end
  end
end
return { initial, left, rows, beyond, short, twice, never }

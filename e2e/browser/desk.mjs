// The curation desk in a browser: two curators with the keyboard alone, then one without JavaScript on a phone.
import assert from 'node:assert/strict'
import { base, eventually, inspect, launch, person, phone, step, verb } from './lib.mjs'

const { WALK_ONCE: once, WALK_TOKEN: token, WALK_CANDIDATES: candidates, WALK_API_URL: apiURL, WALK_KEY: key, WALK_MACHINE: machine } = process.env
const browser = await launch()
const { context, page, faults } = await person(browser)
await context.route(url => url.origin !== base, route => route.fulfill({ contentType: 'text/html', body: 'A source.' }))
// The desk leads to a source by a redirect, which Playwright does not intercept.
const sourcesOpened = []
await context.route(/\/reviews\/[^/]+\/open\?/, async route => {
  const response = await route.fetch({ maxRedirects: 0 })
  assert.equal(response.status(), 303)
  sourcesOpened.push(response.headers().location)
  await route.fulfill({ contentType: 'text/html', body: 'A source.' })
})
await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: base })
const figures = []

// press presses keys and counts them. Only a loaded page has its script, which reads them.
let pressed = 0
async function press(...keys) {
  await page.waitForLoadState()
  for (const k of keys) {
    await page.keyboard.press(k)
    pressed++
  }
}

// look presses a key that opens a page in a new tab, and closes the tab.
async function look(key) {
  const opened = context.waitForEvent('page')
  await press(key)
  const tab = await opened
  await tab.waitForLoadState()
  await tab.close()
  await page.bringToFront()
}

// type types a text and counts its keys.
async function type(text) {
  for (const k of text) await press(k)
}

// quote pastes words into the fact that has the focus.
async function quote(words) {
  await page.evaluate(words => navigator.clipboard.writeText(words), words)
  await press('Control+v')
}

// costs notes and bounds the keys that were pressed since the count began.
function costs(what, most) {
  figures.push([what, `${pressed} keys (limit ${most})`])
  assert.ok(pressed <= most, `${what}: ${pressed} keys, at most ${most} wanted`)
}

// signIn signs a person in with the operator token.
async function signIn(tab, name) {
  await tab.goto('/sign-in')
  await tab.getByLabel('Operator token').fill(token)
  await tab.getByLabel('Your name').fill(name)
  await tab.getByRole('button', { name: 'Sign in' }).click()
  await tab.waitForURL(base + '/queue')
}

// small fails if the page is larger than 100 KB.
async function small(tab, path) {
  const response = await tab.goto(path)
  const size = (await response.body()).length
  assert.ok(size <= 100_000, `${path} has ${size} bytes`)
  return response
}

// readSources opens each source in a new tab, closes it, and chooses its state. Requests to the sources are blocked.
async function readSources() {
  const n = await page.locator('.source').count()
  for (let i = 0; i < n; i++) {
    await look('o')
    await press('1')
  }
  assert.equal(await page.locator('.states input[value=still]:checked').count(), n)
  return n
}

// submit submits the review and waits for the next page. If an unchanged review was chosen for a look at a source, it opens one.
async function submit() {
  const before = page.url()
  await press('Control+Enter')
  const chosen = page.getByRole('alert').getByText('one unchanged review in ten')
  await Promise.race([page.waitForURL(url => url.href !== before, { waitUntil: 'domcontentloaded' }), chosen.waitFor()])
  if (page.url() !== before) return
  const opened = context.waitForEvent('page')
  await page.locator('a.open').first().click() // the page may still load its script
  await (await opened).close()
  await page.bringToFront()
  await page.waitForLoadState()
  await page.keyboard.press('Control+Enter')
  await page.waitForURL(url => url.href !== before, { waitUntil: 'domcontentloaded' })
}

// operate sends a request to the operator API.
async function operate(actor, method, path, body) {
  const response = await fetch(`${process.env.OPPORTUNITY_ADMIN_URL}/operator/v1/${path}`, {
    method, body: body && JSON.stringify(body), headers: { Authorization: `Bearer ${token}`, 'X-Opportunity-Actor': actor, 'Content-Type': 'application/json' },
  })
  assert.equal(response.status, 200, `${method} ${path}`)
  return response.json()
}

// drawnReview records reviews by different curators until one is drawn for a second opinion, as one in twenty is. The first is not verified,
// so it is not drawn: the second opinion begins with its language. It returns the event, its author and the language that only this
// review has.
async function drawnReview(id) {
  for (let i = 0; i < 400; i++) {
    const author = `carol-${i}-`, language = `Language ${i}.`
    const { generatedAt, lastEventId, record } = await operate(author, 'GET', `reviews/records/${id}`)
    const { eventId } = await operate(author, 'POST', `reviews/records/${id}`, { review: {
      checkedAt: generatedAt, lastEventId, outcome: i ? 'verified' : 'needs-review', sourceUrls: [record.sources[0].url], note: `Found by ${author}.`, facts: { ...record.facts, remote: true, languages: [language] },
    } })
    const { requests } = await operate('ann', 'GET', 'reviews/second-opinions')
    const { opinionFacts } = await operate('ann', 'GET', `reviews/records/${id}?secondOpinionOf=${eventId}`)
    if (requests.some(r => r.eventId === eventId)) {
      assert.ok(['remote', 'languages'].every(fact => opinionFacts.includes(fact)) && opinionFacts.length === 3)
      return { eventId, author, language }
    }
  }
  assert.fail('no review was drawn')
}

// read lets the desk show what a machine would have found on the pages of a record: suggestions, or the quotes of each known fact, present
// or missing with a suggestion.
async function read(id, suggestions, finding = 'present') {
  const { record } = await operate('ann', 'GET', `reviews/records/${id}`)
  const quotes = suggestions ? [] : Object.entries(record.facts).filter(([, v]) => v !== null && v !== 'unknown' && v.length !== 0).map(([fact, v]) => ({
    fact, sourceUrl: v.sourceUrl ?? v[0]?.sourceUrls?.[0] ?? v[0]?.sourceUrl ?? record.sources[0].url, exact: `What the page says about ${fact}`, prefix: '', suffix: '',
  }))
  const readings = quotes.map(q => ({ ...q, finding, readAt: new Date().toISOString(), note: '' }))
  const nearest = finding === 'missing' ? quotes.map(q => ({ ...q, exact: `What the page says about ${q.fact} now` })) : []
  const found = suggestions ? { suggestions } : { evidence: { quotes, gone: [], unopened: [] }, readings, suggestions: nearest }
  assert.equal((await fetch(`${machine}/found/${id}`, { method: 'POST', body: JSON.stringify(found) })).status, 200)
}

// unfold shows the unknown facts.
async function unfold(tab) {
  const folded = tab.locator('details.unknown:not([open]) > summary')
  if (await folded.count() > 0) await folded.click()
}

const events = async id => JSON.parse(await verb('history', 'show', id, '--output', 'json')).events.length

try {
  step('the one-time URL signs in with one key, once')
  await page.goto(once)
  await inspect(page, 'desk-01-once')
  await press('Enter')
  await page.waitForURL(base + '/queue')
  assert.equal((await page.request.get(once)).status(), 410)
  await inspect(page, 'desk-02-queue')

  step('an unchanged review with the keyboard')
  await press('g', 'n')
  await page.waitForURL(/\/reviews\//)
  await inspect(page, 'desk-03-review')
  let loads = 0
  page.on('framenavigated', frame => frame === page.mainFrame() && loads++)
  pressed = 0
  const first = page.url().split('/').pop()
  const recorded = await events(first)
  const start = Date.now()
  const many = await readSources()
  await press('u', 'v')
  await page.screenshot({ path: `${process.env.WALK_ARTIFACTS}/desk-04-ready.png` })
  await submit()
  const took = Date.now() - start
  await page.getByRole('status').getByText('recorded: verified').waitFor()
  assert.equal(loads, 1, 'page loads of a review')
  assert.ok(pressed <= 2 * many + 7, `${pressed} keys for ${many} sources`)
  assert.equal(await events(first), recorded + 1)
  figures.push(['unchanged review', `${many} sources: ${pressed} keys (limit ${many + 7} and ${many} states), ${loads} page load, ${took} ms`])

  step('an unchanged review whose every quote a machine found again')
  const { records: due } = await operate('ann', 'GET', 'reviews/queue?available=true')
  const next = due.find(r => !r.reasons.some(d => d.why !== 'stale'))
  for (const r of due.slice(0, due.indexOf(next))) await operate('ann', 'PUT', `reviews/records/${r.id}/skip`, { reason: 'not for this step', until: new Date(Date.now() + 86_400_000).toISOString() })
  await read(next.id)
  await page.goto('/queue')
  pressed = 0
  const began = Date.now()
  await press('g', 'n')
  await page.waitForURL(base + '/reviews/' + next.id)
  const willRecord = await page.locator('#will output').innerText()
  assert.match(willRecord, /^Verified: \d+ facts kept, \d+ unknown, \d+ quotes\.$/)
  const seen = Date.now() - began
  await inspect(page, 'desk-21-all-present')
  const looked = Date.now()
  await submit()
  await page.getByRole('status').getByText('recorded: verified').waitFor()
  figures.push(['unchanged review, all quotes present', `${pressed} keys from the queue (limit 3), ${seen + Date.now() - looked} ms`])
  assert.ok(pressed <= 3)
  const { events: [newest] } = await operate('ann', 'GET', `reviews/records/${next.id}`)
  assert.equal(`${newest.evidence.quotes.length} quotes.`, willRecord.split(', ').at(-1))

  step('candidates: import, a first review with changed facts, publish')
  await page.goto('/import')
  await inspect(page, 'desk-05-import')
  await page.getByLabel('Listings file').setInputFiles(candidates)
  await page.getByRole('button', { name: 'Show changes' }).press('Enter')
  await page.getByText('would create 30').waitFor()
  await inspect(page, 'desk-06-import-changes')
  await page.getByRole('button', { name: /^Import/ }).press('Enter')
  await page.getByText('created 30').waitFor()
  await inspect(page, 'desk-07-records')
  await page.goto('/reviews/candidate-00')
  pressed = 0
  const n = await readSources()
  await press('u', 'v')
  const unchanged = pressed
  await press('f', 'r', 'y')
  figures.push(['one changed fact', `${pressed - unchanged} keys (limit 3)`])
  assert.ok(pressed - unchanged <= 3)
  await press('f', 'p', 'e')
  await page.keyboard.type('20')
  await page.keyboard.press('Tab')
  await page.keyboard.type('25.50')
  await page.evaluate(() => document.addEventListener('submit', () => { document.body.dataset.submitted = 'yes' }))
  await page.keyboard.press('Enter')
  assert.equal(await page.evaluate(() => document.body.dataset.submitted), undefined, 'Enter in a field submits nothing')
  await press('Control+Enter')
  await page.getByRole('alert').waitFor() // no source yet
  assert.equal(await page.getByLabel('To', { exact: true }).inputValue(), '25.50')
  await page.locator('[id="pay.sourceUrl"]:focus').waitFor() // the first mistake
  await inspect(page, 'desk-08-review-problems')
  await page.locator('[id="pay.sourceUrl"]').selectOption({ index: 2 })
  await page.getByLabel('Starting cost').fill('None')
  const summaries = []
  page.on('request', request => request.url().endsWith('/summary') && summaries.push(request.url()))
  await page.getByLabel('Note m').pressSequentially('Rates are on the FAQ page, says the page.')
  await page.getByLabel('Note m').blur()
  assert.ok(summaries.length <= 2, `${summaries.length} requests for the summary of 41 characters`)
  const bar = await page.locator('.bar').boundingBox()
  figures.push(['bar', `${bar.height} px of 900 (limit 54)`])
  assert.ok(bar.height <= 54, `the bar is ${bar.height} px high`)
  await submit()
  assert.equal(n, 2)
  await page.goto('/records/candidate-00')
  await inspect(page, 'desk-09-record')
  await page.getByRole('link', { name: 'Publish' }).press('Enter')
  await inspect(page, 'desk-10-publish')
  await page.getByRole('button', { name: 'Publish record' }).press('Enter')
  await page.getByText('Published 1 record.').waitFor()
  await eventually('the record to be public and verified', async () => {
    const answer = await fetch(`${apiURL}/api/v1/opportunities/candidate-00`, { headers: { Authorization: `Bearer ${key}` } })
    if (answer.status !== 200) return false
    const { data } = await answer.json()
    return data.verification.status === 'verified' && data.facts.remote === true && data.facts.pay.maximum === 25.5
  })

  step('two curators on one record: the second submit shows the difference and keeps the input')
  const bob = await person(browser)
  await signIn(bob.page, 'bob')
  await page.goto('/reviews/candidate-01')
  await bob.page.goto('/reviews/candidate-01')
  await bob.page.getByText('operator (ann) has been working on this record').waitFor()
  await inspect(bob.page, 'desk-11-in-work')
  await bob.page.getByRole('button', { name: 'Take over' }).click()
  await bob.page.getByText('The record is yours').waitFor()
  const choose = async (tab, fact, label) => {
    await unfold(tab)
    await tab.locator(`[id="fact.${fact}"]`).getByRole('radio', { name: new RegExp(`^${label}\\b`) }).check()
  }
  await bob.page.locator('.states').first().getByText('Still says so').click()
  await bob.page.getByText('Nothing else changed').click()
  await choose(bob.page, 'remote', 'No')
  await bob.page.locator('#outcome').getByText('Verified').click()
  await bob.page.getByRole('button', { name: 'Submit and go to the next' }).click()
  await bob.page.getByText('recorded: verified').waitFor()
  await press('1', '1', 'u', 'v', 'f', 'd', 'n', 'f', 'r', 'y', 'm')
  await page.keyboard.type('what ann wrote')
  await press('Control+Enter')
  await page.getByText('Something was recorded since you opened this record').waitFor()
  await inspect(page, 'desk-12-newer')
  assert.equal(await page.getByLabel('Note m').inputValue(), 'what ann wrote')
  await page.getByText('New value, recorded after you opened this record').waitFor()
  await press('Control+Enter')
  await page.getByRole('alert').getByText('Remote: keep it, change it, or set it to unknown').waitFor()
  assert.equal(await events('candidate-01'), 1, 'a second Ctrl+Enter records no stale decision')
  await press('f', 'r', 'k')
  await submit()
  assert.equal(await events('candidate-01'), 2)
  assert.equal(bob.faults.length, 0, bob.faults.join('\n'))

  step('undo of the own last review is a correcting event')
  await page.getByRole('button', { name: 'Undo review' }).press('Enter')
  await page.getByText('Your review is undone').waitFor()
  assert.equal(await events('candidate-01'), 3)

  step('closed: the form says what becomes of the application status')
  await page.goto('/reviews/candidate-07')
  await press('3', 'e')
  await page.locator('#will').getByText('Closed, and the application status becomes closed').waitFor()
  await submit()
  assert.match(await verb('history', 'show', 'candidate-07', '--output', 'json'), /"applicationStatus":\s*"closed"/)

  step('a first review with suggestions, published at once')
  const from = path => fact => ({ fact, sourceUrl: `https://candidate-08.example/${path}`, exact: `A sentence about ${fact}`, prefix: '', suffix: '' })
  await read('candidate-08', [...['remote', 'countryEligibility', 'experienceRequired', 'flexibleSchedule'].map(from('')), from('faq')('pay')])
  await page.goto('/reviews/candidate-08')
  await inspect(page, 'desk-22-suggestions')
  pressed = 0
  await press('Enter') // the first fact with a suggestion
  await press('q', 'e', 'Enter')
  await look('o')
  assert.match(sourcesOpened.at(-1), /^https:\/\/candidate-08\.example\/.*:~:text=A%20sentence/)
  for (const k of '1234') await page.keyboard.press(k)
  assert.equal(await page.locator('.states input:checked').count(), 0, 'digits in a fact set no state of a source')
  await press('q', 'y', 'q', 'n', 'q', 'y')
  await look('o')
  await press('q', 'e')
  await type('17')
  await press('Tab')
  await type('20')
  await press('Enter', 'v')
  await page.locator('#will').getByText('5 quotes.').waitFor()
  pressed++ // the next one
  costs('first review of five facts with suggestions and quotes', 25)
  await page.getByRole('button', { name: 'Submit and publish' }).press('Enter')
  await page.waitForURL(/candidate-08\/publish/)
  await page.locator('button:focus').press('Enter')
  await page.getByText('Published 1 record.').waitFor()
  assert.match(page.url(), /\/reviews\/candidate-/, 'the next candidate opens')
  const { evidence: stored, record: reviewed } = await operate('ann', 'GET', 'reviews/records/candidate-08')
  assert.deepEqual(stored.quotes.map(q => q.fact).sort(), ['countryEligibility', 'experienceRequired', 'flexibleSchedule', 'pay', 'remote'])
  assert.equal(reviewed.facts.pay.sourceUrl, 'https://candidate-08.example/faq')

  step('one wrong fact is corrected')
  await page.goto('/reviews/candidate-08')
  pressed = 0
  await readSources()
  await press('u', 'f', 'p')
  await look('o')
  await quote('Writers earn 18 to 19 CAD an hour.')
  await press('e')
  await type('18')
  await press('Tab')
  await type('19')
  await press('Enter', 'v')
  await submit()
  costs('one wrong fact corrected, with both sources checked', 20)
  const { evidence: corrected, record: paid } = await operate('ann', 'GET', 'reviews/records/candidate-08')
  assert.equal(paid.facts.pay.maximum, 19)
  assert.deepEqual(corrected.quotes.filter(q => q.fact === 'pay').map(q => q.exact), ['Writers earn 18 to 19 CAD an hour.'])

  step('a first review of a record with only a list on GitHub as a source')
  await page.goto('/reviews/candidate-13')
  pressed = 0
  await look('w')
  await look('a')
  await press('Enter')
  await quote('Open to residents of Canada.')
  await press('e', 'Enter')
  await quote('Work from home.')
  await press('y', 'Enter') // nothing about degrees
  await quote('No experience needed.')
  await press('n')
  await quote('Choose your own hours.')
  await press('y')
  await quote('17 to 20 CAD an hour.')
  await press('e')
  await type('17')
  await press('Tab')
  await type('20')
  await press('Enter', 'f', 's')
  await type('None')
  await press('Escape', 'v')
  await inspect(page, 'desk-26-github')
  await submit()
  costs('first review of five facts and the starting cost, only a GitHub source', 35)
  const { record: found, evidence: pasted } = await operate('ann', 'GET', 'reviews/records/candidate-13')
  assert.equal(pasted.quotes.length, 5)
  assert.equal(found.startingCost, 'None')
  assert.deepEqual(found.facts.countryEligibility[0].sourceUrls, ['https://candidate-13.example/apply'])

  step('a page changed: every quote from it is missing')
  const changing = await operate('ann', 'GET', 'reviews/records/candidate-09')
  const front = changing.record.sources[0].url
  await operate('ann', 'POST', 'reviews/records/candidate-09', { review: {
    checkedAt: changing.generatedAt, lastEventId: changing.lastEventId, outcome: 'verified', sourceUrls: [front], note: '', facts: {
      ...changing.record.facts, remote: true, degreeRequired: false, experienceRequired: false, flexibleSchedule: true, languages: ['English'], requirements: ['A phone line'],
      countryEligibility: [{ country: 'CA', status: 'eligible', allRegions: null, includedRegions: [], excludedRegions: [], sourceUrls: [front], note: '' }],
      pay: { minimum: 17, maximum: 20, currency: 'CAD', unit: 'hour', sourceUrl: front },
    } } })
  await read('candidate-09', undefined, 'missing')
  await page.goto('/reviews/candidate-09')
  await inspect(page, 'desk-27-changed')
  pressed = 0
  await look('o')
  await press('Enter')
  await type('qkqkqkqkqk') // countries and the four conditions
  await press('q', 'e')
  await type('18')
  await press('Tab')
  await type('19')
  await press('Enter')
  await type('qk')
  await press('q', 'e')
  await type('A phone')
  await press('Escape', 'v')
  await submit()
  costs('a changed page with eight facts, two of which changed', 60)
  const after = await operate('ann', 'GET', 'reviews/records/candidate-09')
  assert.equal(after.record.facts.pay.minimum, 18)
  assert.deepEqual(after.record.facts.requirements, ['A phone'])

  step('a record with three sources fits the screen')
  const wide = await operate('ann', 'GET', 'reviews/records/candidate-14')
  const [one, two, three] = wide.record.sources.map(s => s.url)
  await operate('ann', 'POST', 'reviews/records/candidate-14', { review: {
    checkedAt: wide.generatedAt, lastEventId: wide.lastEventId, outcome: 'verified', sourceUrls: [one, two, three], note: '', facts: {
      ...wide.record.facts, remote: true, experienceRequired: false, flexibleSchedule: true,
      countryEligibility: [{ country: 'CA', status: 'eligible', allRegions: null, includedRegions: [], excludedRegions: [], sourceUrls: [two], note: '' }],
      pay: { minimum: 17, maximum: 20, currency: 'CAD', unit: 'hour', sourceUrl: three },
    } } })
  await read('candidate-14')
  await page.goto('/reviews/candidate-14')
  await page.screenshot({ path: `${process.env.WALK_ARTIFACTS}/desk-28-fits.png` })
  const [facts, tray] = [await page.locator('details.unknown > summary').boundingBox(), await page.locator('.bar').boundingBox()]
  figures.push(['sheet of three sources and five facts', `ends at ${facts.y + facts.height} px, the bar begins at ${tray.y} of 900`])
  assert.ok(facts.y + facts.height <= tray.y, `the facts end at ${facts.y + facts.height} px, under the bar at ${tray.y}`)

  step('several candidates are published after a question')
  await page.goto('/candidates')
  await page.getByRole('link', { name: 'Reviewed candidates only' }).click()
  await page.getByRole('link', { name: /^Choose all/ }).click() // two more clicks publish them: four in all
  assert.equal(await page.locator('tbody input:checked').count(), await page.locator('tbody tr').count())
  await inspect(page, 'desk-25-reviewed-candidates')
  await page.goto('/candidates')
  for (const id of ['11', '12']) await page.getByLabel(`Choose Candidate ${id}`).check()
  await page.getByRole('button', { name: 'Publish chosen candidates' }).press('Enter')
  await page.getByText('2 listings would become public, 2 of them never reviewed.').waitFor()
  await inspect(page, 'desk-23-publish-several')
  await page.getByRole('button', { name: 'Publish records' }).press('Enter')
  await page.getByText('Published 2 records.').waitFor()

  step('a double submit is one event')
  await page.goto('/reviews/candidate-02')
  await press('1', '1', 'u', 'v', 'f', 'r', 'y')
  const form = await page.evaluate(() => new URLSearchParams(new FormData(document.querySelector('form[data-review]'))).toString())
  const sent = await Promise.all([1, 2].map(() => page.request.post('/reviews/candidate-02', {
    data: form, headers: { 'Content-Type': 'application/x-www-form-urlencoded', Origin: base, 'Sec-Fetch-Site': 'same-origin' }, maxRedirects: 0,
  })))
  assert.deepEqual(sent.map(r => r.status()), [303, 303])
  assert.equal(await events('candidate-02'), 1)

  step('a second opinion does not show the first review, and a disagreement needs another one')
  const drawn = await drawnReview('candidate-10')
  await page.goto('/queue')
  await page.locator(`a[href="/reviews/candidate-10?opinion=${drawn.eventId}"]`).press('Enter')
  await page.getByText('This is a second opinion').waitFor()
  await inspect(page, 'desk-16-opinion')
  assert.equal(await page.locator('.fact').count(), 3, 'only the drawn facts')
  const sheet = await page.locator('main').innerHTML()
  for (const secret of [drawn.author, drawn.language]) assert.ok(!sheet.includes(secret), `the page of the second opinion shows ${secret}`)
  await press('1', '1', 'u', 'v', 'f', 'r', 'n')
  await submit()
  await page.getByText('Do your words mean the same as those of the first review?').waitFor()
  assert.ok((await page.locator('[id="texts.languages"]').innerText()).includes(drawn.language))
  await inspect(page, 'desk-24-texts')
  await page.locator('[id="texts.languages"]').getByText('Different').click()
  await submit()
  await page.getByText('Your opinion differs in: Remote, Languages.').waitFor()
  await page.goto('/reviews/candidate-10')
  await page.locator('.lead').getByText('needs-review').waitFor()
  await page.getByText('operator (ann) gave a second opinion that differs in: Remote, Languages.').waitFor()
  assert.ok((await page.locator('[id="recorded.fact.languages"]').innerText()).startsWith(drawn.language), 'the facts of the first review stay in effect')

  step('an edit shows its consequences, and keeps the input of a conflict')
  await page.goto('/records/candidate-00/edit')
  await inspect(page, 'desk-17-edit')
  await bob.page.goto('/records/candidate-00/edit')
  await bob.page.getByLabel('Overview').fill('Contractors write.')
  await bob.page.getByRole('button', { name: 'Show what saving does' }).press('Enter')
  await bob.page.getByRole('button', { name: 'Save changes' }).press('Enter')
  await bob.page.getByText('Saved: Overview.').waitFor()
  await page.getByLabel('Summary').fill('Ten a day.')
  await page.getByRole('button', { name: 'Show what saving does' }).press('Enter')
  await page.getByText('operator (bob) changed this listing').waitFor()
  await page.getByRole('button', { name: 'Show what saving does' }).press('Enter')
  await page.getByText('Consumers see the change from now on').waitFor()
  await inspect(page, 'desk-18-edit-outcome')
  await page.getByRole('button', { name: 'Save changes' }).press('Enter')
  await page.getByText('Saved: Summary.').waitFor()
  assert.match(await verb('listings', 'show', 'candidate-00', '--output', 'json'), /"summary":\s*"Ten a day\.".*"overview":\s*"Contractors write\.".*"startingCost":\s*"None"/s)

  step('a draft survives the browser, and an ended session')
  await page.goto('/reviews/candidate-03')
  await press('1', 'm')
  await page.keyboard.type('to be continued')
  await page.getByText('Draft saved').waitFor()
  await page.goto('/sessions')
  await inspect(page, 'desk-13-sessions')
  const later = await person(browser)
  await signIn(later.page, 'ann')
  await later.page.goto('/reviews/candidate-03')
  await later.page.getByText('is in the form').waitFor()
  assert.equal(await later.page.getByLabel('Note m').inputValue(), 'to be continued')
  await inspect(later.page, 'desk-14-draft')

  step('keys rest while typing, never submit alone, and can be switched off')
  await page.goto('/reviews/candidate-04')
  await press('m')
  await page.keyboard.type('uv1 ?gq')
  assert.equal(await page.locator('input:checked').count(), 0)
  assert.ok(page.url().endsWith('/reviews/candidate-04'))
  await press('Escape')
  for (const k of 'bdehijlnpqstxyz0567 ') await page.keyboard.press(k === ' ' ? 'Space' : k)
  assert.ok(page.url().endsWith('/reviews/candidate-04'))
  assert.equal(await events('candidate-04').catch(() => 0), 0)
  await page.goto('/help')
  await inspect(page, 'desk-15-help')
  await page.getByRole('button', { name: 'Switch shortcuts off' }).press('Enter')
  await page.goto('/reviews/candidate-04')
  await page.keyboard.press('1')
  await page.keyboard.press('u')
  assert.equal(await page.locator('.states input:checked').count(), 0)
  await page.goto('/help')
  await page.getByRole('button', { name: 'Switch shortcuts on' }).press('Enter')

  step('submit to next form')
  const times = []
  await page.goto('/next')
  for (let i = 0; i < 12 && /\/reviews\//.test(page.url()); i++) {
    for (let s = await page.locator('.source').count(); s > 0; s--) await page.keyboard.press('1')
    for (const k of 'uvfry') await page.keyboard.press(k)
    const start = Date.now()
    await submit()
    times.push(Date.now() - start)
  }
  times.sort((a, b) => a - b)
  if (times.length > 0) figures.push(['submit to next form', `median ${times[times.length >> 1]} ms, worst ${times.at(-1)} ms of ${times.length}, on the sample`])

  step('every other page')
  const audit = await page.goto('/audit.csv').catch(() => null)
  assert.equal(audit, null, 'the export is a file')
  const pages = ['/queue', '/queue?scope=all', '/records', '/records?visibility=private', '/records/candidate-01', '/records/candidate-01/pages', '/records/candidate-00/withdraw', '/records/candidate-00/propose-withdrawal', '/withdrawals', '/requests',
    '/accounts', '/candidates', '/freshness', '/usage', '/audit', '/help', '/sessions', '/import', '/nothing-here', '/reviews/candidate-05']
  for (const [i, path] of pages.entries()) {
    await small(page, path)
    await inspect(page, `desk-20-${String(i).padStart(2, '0')}`)
  }
  await page.goto('/accounts')
  await page.locator('tbody a').first().press('Enter')
  await page.getByRole('heading', { name: 'Audit log' }).waitFor()
  await inspect(page, 'desk-31-account')

  step('without JavaScript, on a phone')
  const plain = await person(browser, { javaScriptEnabled: false, viewport: phone })
  await plain.page.goto('/reviews/candidate-06')
  assert.match(plain.page.url(), /\/sign-in\?next=/)
  await plain.page.getByLabel('Operator token').fill(token)
  await plain.page.getByLabel('Your name').fill('grace')
  await plain.page.getByRole('button', { name: 'Sign in' }).click()
  assert.ok(plain.page.url().endsWith('/reviews/candidate-06'))
  await plain.page.getByLabel('Note m').fill('on the train')
  await plain.page.getByRole('button', { name: 'Save draft' }).click()
  await plain.page.getByText('Your draft is saved').waitFor()
  await plain.page.getByRole('button', { name: 'Submit and go to the next' }).click()
  await plain.page.getByRole('alert').getByText('Choose an outcome').waitFor()
  assert.equal(await plain.page.getByLabel('Note m').inputValue(), 'on the train')
  for (const box of await plain.page.locator('.states').all()) await box.getByText('Still says so').click()
  await plain.page.getByText('Nothing else changed').click()
  await choose(plain.page, 'languages', 'Change')
  await plain.page.locator('[id="fact.languages"] summary').click()
  await plain.page.getByLabel('Exact words about languages').fill('English and French')
  await plain.page.locator('[id="quotefrom.languages.0"]').selectOption({ index: 1 })
  await plain.page.getByLabel('New languages, one on each line').fill('English\nFrench')
  await plain.page.locator('#outcome').getByText('Verified').click()
  await plain.page.getByRole('button', { name: 'Submit and go to the next' }).click()
  await plain.page.getByText('recorded: verified').waitFor()
  assert.equal(await events('candidate-06'), 1)
  await plain.page.goto('/records/candidate-06/publish')
  await plain.page.getByRole('button', { name: 'Publish record' }).click()
  await plain.page.getByText('Published 1 record.').waitFor()

  step('a cookie is worth nothing after signing out')
  const stolen = await context.cookies()
  await page.getByRole('button', { name: 'Sign out' }).press('Enter')
  await page.waitForURL(base + '/sign-in')
  await context.addCookies(stolen)
  await page.goto('/queue')
  assert.match(page.url(), /\/sign-in/)

  for (const [name, value] of figures) console.log(`  ${name}: ${value}`)
  assert.deepEqual(faults, [])
} catch (error) {
  await page.screenshot({ path: `${process.env.WALK_ARTIFACTS}/failed-desk.png`, fullPage: true }).catch(() => {})
  console.error(`at ${page.url()}\n${await page.locator('main').innerText({ timeout: 1000 }).catch(() => '')}\n`, faults)
  throw error
} finally {
  await browser.close()
}

// A candidate from its import to a verified and published record with quotes, and the day on which one of its pages changed.
import assert from 'node:assert/strict'
import { base, eventually, inspect, launch, person, step } from './lib.mjs'

const { WALK_ONCE: once, WALK_CANDIDATES: candidates, WALK_SITE: site, WALK_MACHINE: machine, WALK_API_URL: apiURL, WALK_KEY: key } = process.env
const browser = await launch()
const { page, faults } = await person(browser)

// check runs the link checker and returns what it prints.
async function check(day) {
  const response = await fetch(`${machine}/${day}`, { method: 'POST' })
  const text = await response.text()
  assert.equal(response.status, 200, text)
  return text
}

// record returns the public record, or undefined.
async function record() {
  const response = await fetch(`${apiURL}/api/v1/opportunities/maker-market`, { headers: { Authorization: `Bearer ${key}` } })
  const text = await response.text()
  assert.ok(!text.includes('on average'), 'a quote is public')
  return response.status === 200 ? JSON.parse(text).data : undefined
}

const fact = name => page.locator(`[id="fact.${name}"]`)

// decide decides about a fact, and pastes its quotes from the source with that number.
async function decide(name, label, words, source) {
  await fact(name).getByRole('radio', { name: new RegExp(`^${label}\\b`) }).check()
  if (!await page.getByLabel(`Exact words about ${name.replace(/[A-Z]/g, c => ' ' + c.toLowerCase())}`).isVisible()) await fact(name).locator('details.quote > summary').click()
  for (const [i, text] of [words].flat().entries()) {
    await page.locator(`[id="quote.${name}.${i}"]`).fill(text)
    await page.locator(`[id="quotefrom.${name}.${i}"]`).selectOption({ index: Number(source) }) // after "Choose"
  }
}

async function pay(from, to) {
  await page.locator('[id="pay.minimum"]').fill(from)
  await page.locator('[id="pay.maximum"]').fill(to)
  await page.locator('[id="pay.sourceUrl"]').selectOption({ index: 1 })
}

const mark = async () => { for (const box of await page.locator('.marks').all()) await box.getByText('Still says so').click() }

try {
  step('import')
  await page.goto(once)
  await page.locator('button:focus').press('Enter') // the button gets the focus a moment after the page has loaded
  await page.waitForURL(base + '/queue')
  await page.goto('/import')
  await page.getByLabel('Listings file').setInputFiles(candidates)
  await page.getByRole('button', { name: 'Show changes' }).click()
  await page.getByRole('button', { name: /^Import/ }).click()
  await page.getByText('created 1').waitFor()

  step('the machine reads the pages of the candidate and suggests quotes')
  await eventually('the history to know the candidate and read its pages', async () => /read [1-9]\d* pages/.test(await check('today')))
  await page.goto('/reviews/maker-market')
  await fact('pay').getByText('Sellers earn $20 to $25 CAD per hour on average.').first().waitFor()
  await inspect(page, 'evidence-01-suggestions')

  step('a first review with quotes, published')
  const folded = page.locator('details.unknown:not([open]) > summary')
  if (await folded.count() > 0) await folded.click()
  await mark()
  await decide('pay', 'Change', 'Sellers earn $20 to $25 CAD per hour on average.', '1')
  await pay('20', '25')
  await decide('remote', 'Yes', 'bananas are blue', '2')
  await decide('countryEligibility', 'Change', ['a resident of Canada', 'Residents of Quebec cannot apply.'], '3')
  await page.locator('[id="countryEligibility.0.regions"]').selectOption('notin')
  await page.getByRole('checkbox', { name: 'Québec' }).check()
  await fact('flexibleSchedule').getByRole('radio', { name: /^Yes\b/ }).check()
  await fact('flexibleSchedule').getByRole('checkbox', { name: /^Use .*this quote and its page as a source/ }).check()
  await decide('experienceRequired', 'No', 'No experience is required.', '3')
  await page.getByText('Nothing else changed').click()
  await page.locator('#outcome').getByText('Verified').click()
  await page.getByRole('button', { name: 'Submit and publish' }).click()
  await page.getByText('does not have "bananas are blue"; correct the quote').waitFor()
  await inspect(page, 'evidence-05-false-quote')
  assert.equal(await page.locator('[id="quote.countryEligibility.1"]').inputValue(), 'Residents of Quebec cannot apply.')
  await page.locator('[id="quote.remote.0"]').fill('all work is remote')
  await page.getByRole('button', { name: 'Submit and publish' }).click()
  await page.waitForURL(/maker-market\/publish/)
  await page.locator('button:focus').press('Enter')
  await page.getByText('Published maker-market.').waitFor()
  let first
  await eventually('the record to be public and verified', async () => (first = await record())?.verification.status === 'verified')
  assert.deepEqual(first.sources.map(s => s.url), ['pay', 'faq', 'who', 'apply'].map(p => `${site}/${p}`))
  for (const s of first.sources) assert.equal(s.checkedAt, first.verification.lastCheckedAt, 'sources follow the review')

  step('the next day two of four pages have changed')
  let printed
  await eventually('the history to know that the record is published', async () => (printed = await check('tomorrow')).includes(' present'))
  assert.match(printed, /4 present, 1 moved, 1 missing, 0 unknown/)
  // The check of the application link may have arrived: it is the other kind of evidence.
  const reviews = ({ verification: { applicationLink, historyCount, ...rest } }) => rest
  assert.deepEqual(reviews(await record()), reviews(first), 'the machine verifies and refreshes nothing')
  await page.goto('/queue')
  const top = page.locator('tbody tr').first()
  await top.getByText('Maker Market').waitFor()
  assert.match(await top.innerText(), /missing/)
  await inspect(page, 'evidence-02-queue')
  await page.goto('/reviews/maker-market')
  assert.match(await fact('pay').innerText(), /missing/i)
  assert.match(await fact('remote').innerText(), /still says so/i)
  assert.match(await fact('flexibleSchedule').innerText(), /moved/i)
  await inspect(page, 'evidence-03-missing')
  await page.goto('/records/maker-market')
  await page.getByRole('link', { name: 'Pages', exact: true }).click()
  await page.locator('del').getByText('$20 to $25').waitFor()
  await page.locator('ins').getByText('$18 to $19').waitFor()
  await inspect(page, 'evidence-04-pages')

  step('the curator records what the page says now')
  await page.goto('/reviews/maker-market')
  await mark()
  await fact('pay').getByRole('radio', { name: /^Change\b/ }).check()
  const nearest = fact('pay').locator('p.quote', { hasText: 'Sellers earn $18 to $19 CAD per hour on average.' })
  await nearest.getByRole('checkbox', { name: /^Use .*this quote/ }).check()
  await pay('18', '19')
  await page.getByText('Nothing else changed').click()
  await page.locator('#outcome').getByText('Verified').click()
  await page.getByRole('button', { name: 'Submit and go to the next' }).click()
  await page.getByText('recorded: verified').waitFor()
  await eventually('the new pay to be public', async () => (await record()).facts.pay.maximum === 19)

  step('the day after, nothing has moved, and the review takes one key')
  assert.match(await check('tomorrow'), /6 present, 0 moved, 0 missing, 0 unknown/)
  await page.goto('/reviews/maker-market')
  assert.match(await page.locator('#will output').innerText(), /^Verified: 5 facts kept, 6 unknown, 6 quotes\.$/)
  assert.deepEqual(faults, [])
} catch (e) {
  await page.screenshot({ path: `${process.env.WALK_ARTIFACTS}/evidence-failed.png`, fullPage: true })
  throw e
} finally {
  await browser.close()
}

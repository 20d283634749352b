// The same pages without JavaScript, on a phone: from the front page to a key and back to nothing, by links only up to the first form for
// a key. Then every public page.
import assert from 'node:assert/strict'
import { base, call, code, launch, mail, person, phone, step, tour, verb } from './lib.mjs'

const address = 'grace@example.org'
const password = 'seven ordinary wooden spoons'
const browser = await launch()
const { page, faults } = await person(browser, { javaScriptEnabled: false, viewport: phone })
const press = name => page.getByRole('button', { name, exact: typeof name === 'string' }).click()
const follow = name => page.getByRole('link', { name }).first().click()

try {
  step('sign up')
  await page.goto('/')
  await follow('Create an account')
  await page.getByLabel('Email address').fill(address)
  await press('Send link')
  await page.goto((await mail(address, /confirm/i)).link)
  await page.getByLabel('Password').fill(password)
  await page.locator('main form button').click()
  await page.locator('summary').click()
  const seed = await page.locator('code.secret').textContent()
  await page.getByLabel('Code').fill(await code(seed))
  await press('Confirm')
  await follow('I saved my codes')

  step('a key')
  await follow('Request a key and say what it is for')
  await page.getByLabel('Name of the key').fill('Phone')
  await page.getByLabel('Use case').fill('Trying it out.')
  await page.getByLabel(/Live key/).check()
  await page.getByLabel(/I accept the terms of use/).check()
  await press('Request key')
  const [asked] = JSON.parse(await verb('keys', 'requests', '--output', 'json')).requests
  await verb('keys', 'decline', asked.id, '--reason', 'Please say what you build.')
  await page.reload()
  await page.getByText('Please say what you build.').waitFor()
  await page.goto('/account/keys/new')
  await page.getByLabel('Name of the key').fill('Phone')
  await page.getByLabel('Use case').fill('A board of side jobs in our town hall.')
  await press('Request key') // a test key; the terms are accepted already
  await press('Show key')
  const key = await page.locator('code.secret').first().textContent()
  assert.equal((await call(key)).status, 200)
  await follow('Explorer')
  await follow('Get one opportunity')
  await page.getByLabel('id', { exact: true }).fill('nobody-has-this-id')
  await press('Send request')
  await page.getByText('404 Not Found').waitFor()
  await page.getByText(/^One request of the day: 99 of 100 were left before the request, 98 are left now/).waitFor()
  await page.goto('/account/usage')
  await page.goto('/account/plan')

  step('close the account')
  await page.goto('/account/security')
  await follow('Close the account')
  await page.getByLabel('Your email address').fill(address)
  await press('Close account')
  assert.equal((await call(key)).body.error.code, 'revoked_api_key')
  await mail(address, /closed/i)
  await page.goto('/account')
  assert.ok(page.url().startsWith(base + '/account/sign-in'))
  assert.deepEqual(faults, [])

  step('every public page')
  const visitor = await person(browser)
  await tour(visitor.page)
  assert.deepEqual(visitor.faults, [])
} catch (error) {
  await page.screenshot({ path: `${process.env.WALK_ARTIFACTS}/failed-plain.png`, fullPage: true }).catch(() => {})
  console.error(`at ${page.url()}\n${await page.locator('main').innerText({ timeout: 1000 }).catch(() => '')}\n`, faults)
  throw error
} finally {
  await browser.close()
}

// What a person pays for, in the sandbox: from the free plan to Business and back, with one key, and what the API answers on the way.
// A key of the free plan may make ten calls in any minute, so no call here is made in vain.
import assert from 'node:assert/strict'
import { base, call, code, eventually, inspect, launch, mail, person, step, verb } from './lib.mjs'

const address = 'mary@example.org'
const password = 'nine patient copper kettles'
const browser = await launch()
const { context, page, faults } = await person(browser)
const press = (name, on = page) => on.getByRole('button', { name, exact: typeof name === 'string' }).first().click()
const follow = (name, on = page) => on.getByRole('link', { name }).first().click()
const plan = '/account/plan'
const perDay = { free: 100, commercial: 10_000 }

// plan opens the page of the plan until it says something.
const planSays = words => eventually(`the plan to say ${words}`, async () => {
  await page.goto(plan)
  return words.test(await page.locator('main').innerText())
})

try {
  step('an account with a key')
  await page.goto('/account/sign-up')
  await page.getByLabel('Email address').fill(address)
  await press('Send link')
  await page.goto((await mail(address, /confirm/i)).link)
  await page.getByLabel('Password').fill(password)
  await page.locator('main form button').click()
  await page.getByText('Enter it by hand instead').click()
  await page.getByLabel('Code').fill(await code(await page.locator('code.secret').first().textContent()))
  await press('Confirm')
  await follow('I saved my codes')
  await page.goto('/account/keys/new')
  await page.getByLabel('Name of the key').fill('Atlas')
  await page.getByLabel('Use case').fill('An atlas of work from home, for a public library.')
  await page.getByLabel(/I accept the terms of use/).check()
  await press('Request key')
  await press('Show key')
  const key = await page.locator('code.secret').first().textContent()

  let used = 0 // of the day, as the service counts it
  const [record] = (await call(key)).body.data
  used++
  // history asks for what the free plan does not give, on the very next call, and holds the headers against the tier.
  const history = async tier => {
    const { status, headers, body } = await call(key, `/api/v1/opportunities/${record.id}/history`)
    assert.equal(status, tier === 'free' ? 402 : 200, JSON.stringify(body))
    if (status === 200) used++ // a 402 is given back
    assert.equal(headers.get('x-ratelimit-limit'), String(perDay[tier]))
    assert.equal(headers.get('x-ratelimit-remaining'), String(perDay[tier] - used), 'what was used today stays used')
  }
  await history('free')

  step('a card that is declined buys nothing')
  await page.goto(plan)
  await inspect(page, '30-free-plan')
  await press('Upgrade to Business')
  await page.waitForURL(base + '/billing/sandbox/checkout/*')
  await page.getByText('This is a sandbox.').waitFor()
  await inspect(page, '31-sandbox-checkout')
  const checkout = page.url()
  await press('Pay with a declined card')
  await page.getByRole('alert').getByText('Nothing was paid.').waitFor()
  await inspect(page, '32-sandbox-declined')
  await follow('Go back')
  await page.waitForURL(`${base}${plan}?checkout=left`)
  await planSays(/The payment failed. You were not charged/)
  await inspect(page, '34-declined')
  await history('free')

  step('pay, from two tabs; both pay for one and the same')
  await press('Upgrade to Business')
  await page.waitForURL(checkout)
  const tab = await context.newPage()
  await tab.goto(checkout)
  await press(/^Pay 29 USD/)
  await page.waitForURL(`${base}${plan}?checkout=done`)
  await eventually('the confirmation', async () => {
    if (await page.getByText('Your payment is confirmed').count()) return true
    await follow('Reload')
  })
  await history('commercial')
  await inspect(page, '35-paid')
  await press(/^Pay 29 USD/, tab)
  await tab.waitForURL(`${base}${plan}?checkout=done`)
  await tab.goto(checkout)
  await tab.getByText('This purchase is already paid.').waitFor()
  await inspect(tab, '36-sandbox-bought')
  await tab.close()

  step('the portal has one invoice')
  await press('Card and invoices')
  await page.waitForURL(base + '/billing/sandbox/portal/*')
  assert.equal(await page.getByRole('cell', { name: 'Paid', exact: true }).count(), 1)
  await inspect(page, '37-sandbox-portal')
  const portal = page.url()

  step('cancel, resume, cancel: all is there until the end of what is paid')
  await planSays(/Renews automatically/)
  await follow('Cancel Business')
  await inspect(page, '40-cancel')
  await press('Cancel Business')
  await page.getByText('You will not be charged again.').waitFor()
  await planSays(/Ends then; after that you have Free/)
  await inspect(page, '41-cancelled')
  await press('Resume Business')
  await page.getByText('The plan renews automatically again.').waitFor()
  await planSays(/Renews automatically/)
  await follow('Cancel Business')
  await press('Cancel Business')
  await page.getByText('You will not be charged again.').waitFor()
  await planSays(/Ends then; after that you have Free/)
  await history('commercial')

  step('the end of what is paid')
  await page.goto(portal)
  await press('Move to period end')
  await planSays(/Business has ended[^]*Upgrade to Business/)
  await history('free')
  await inspect(page, '42-ended')

  step('what was done is in the audit log, and mails told of it')
  const log = await verb('audit', '--output', 'json')
  for (const action of ['plan.upgrade', 'plan.portal', 'plan.cancel', 'plan.resume']) {
    assert.ok(log.includes(`"${action}"`), `no ${action} in ${log}`)
  }
  await mail(address, /plan/i)
  assert.deepEqual(faults, [])
} catch (error) {
  await page.screenshot({ path: `${process.env.WALK_ARTIFACTS}/failed-plan.png`, fullPage: true }).catch(() => {})
  console.error(`at ${page.url()}\n${await page.locator('main').innerText({ timeout: 1000 }).catch(() => '')}\n`, faults)
  throw error
} finally {
  await browser.close()
}

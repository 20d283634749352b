// The whole way of a person with an account, in a browser with JavaScript: sign up, get a key, use it, see the use, rotate, revoke,
// and come back without the authenticator.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { base, call, code, eventually, inspect, launch, mail, person, step, verb } from './lib.mjs'

const address = 'ada@example.org'
const password = 'four unrelated quiet otters'
const browser = await launch()
const { context, page, faults } = await person(browser)
const press = name => page.getByRole('button', { name, exact: typeof name === 'string' }).click()
const follow = name => page.getByRole('link', { name }).first().click()
const secret = () => page.locator('code.secret').first().textContent()

try {
  step('a stranger is asked to sign in')
  await page.goto('/')
  await inspect(page, '00-front')
  await page.goto('/status')
  await inspect(page, '00-status')
  await page.goto('/docs/show-data-responsibly')
  await inspect(page, '00-guide')
  await page.goto('/account')
  assert.match(page.url(), /\/account\/sign-in/)
  await inspect(page, '01-sign-in')

  step('sign up, and confirm by the mail')
  await follow('Create one')
  await inspect(page, '02-sign-up')
  await page.getByLabel('Email address').fill('no address')
  await press('Send link')
  await page.getByRole('alert').waitFor()
  await inspect(page, '03-sign-up-refused')
  await page.getByLabel('Email address').fill(address)
  await press('Send link')
  await inspect(page, '04-mail-sent')
  await page.goto((await mail(address, /confirm/i)).link)
  await page.getByLabel('Password').fill('password1234')
  await inspect(page, '05-choose-password')
  await page.locator('main form button').click()
  await page.getByRole('alert').waitFor() // too easily guessed
  await page.getByLabel('Password').fill(password)
  await page.locator('main form button').click()

  step('set up the authenticator; nothing else is to be had before')
  await page.goto('/account/keys')
  assert.match(page.url(), /\/account\/authenticator/)
  await page.getByText('Enter it by hand instead').click()
  await inspect(page, '06-authenticator')
  const seed = await secret()
  await page.getByLabel('Code').fill('000000')
  await press('Confirm')
  await page.getByRole('alert').waitFor()
  await page.getByLabel('Code').fill(await code(seed))
  await press('Confirm')
  await page.getByRole('heading', { name: /recovery codes/i }).waitFor()
  await inspect(page, '07-recovery-codes')
  const recovery = await page.locator('.codes code').allTextContents()
  assert.equal(recovery.length, 10)
  const downloading = page.waitForEvent('download')
  await page.getByRole('link', { name: 'Download as a text file' }).click()
  const file = await readFile(await (await downloading).path(), 'utf8')
  for (const one of recovery) assert.ok(file.includes(one), file)
  await follow('I saved my codes')
  await inspect(page, '08-home-of-a-new-account')

  step('request a key; the operator approves')
  await follow('Keys')
  await inspect(page, '09-no-keys')
  await follow('Request a key')
  await page.getByLabel('Name of the key').fill('Newsletter <b>&')
  await page.getByLabel('Use case').fill('A weekly letter on work from home for readers in Ontario.')
  await inspect(page, '10-request-a-key')
  await page.getByLabel(/Live key/).check()
  await page.getByLabel(/I accept the terms of use/).check()
  await press('Request key')
  await page.getByText('Waiting for approval').waitFor()
  await inspect(page, '11-request-waits')
  const asked = JSON.parse(await verb('keys', 'requests', '--output', 'json')).requests
  assert.equal(asked.length, 1)
  await verb('keys', 'approve', asked[0].id)
  await mail(address, /approved|key/i)
  await page.reload()
  await follow('Get the key')
  await inspect(page, '12-get-the-key')
  await press('Show key')
  await inspect(page, '13-key-shown-once')
  const first = await secret()
  assert.match(first, /^oda_live_/)
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await page.getByRole('button', { name: 'Copy' }).first().press('Enter')
  await page.getByRole('status').getByText('Copied').waitFor()
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), first)

  step('call the API, and see the calls')
  assert.equal((await call(first)).status, 200)
  assert.equal((await call(first, '/api/v1/opportunities/nobody-has-this-id')).status, 404)
  assert.equal((await call(first, '/api/v1/opportunities?province=ON')).status, 400)
  await eventually('the calls among the usage', async () => {
    const csv = await (await page.request.get('/account/usage.csv')).text()
    return ['served', 'not_found', 'bad_request'].every(outcome => new RegExp(`,Newsletter <b>&,${outcome},1\\r?\\n`).test(csv))
  })
  await page.goto('/account/usage')
  await page.locator('.local', { hasText: /7:00\sPM|19:00/ }).first().waitFor() // when the quota resets, in the local time of this person
  await inspect(page, '14-usage')
  const [bad] = await eventually('the calls in the request log', async () => {
    await page.goto('/account/usage/requests?result=rejected')
    const ids = await page.locator('td[data-label="Request ID"] code').allTextContents()
    return ids.length > 0 && ids
  })
  await page.getByLabel('Request ID').fill(bad)
  await press('Show requests')
  await page.getByText('1 request, newest first').waitFor()
  await inspect(page, '14-requests')

  step('choose notices')
  await page.goto('/account/usage')
  await page.getByRole('link', { name: 'Get an email about the limits' }).click()
  await page.getByRole('checkbox').first().check()
  await press('Save')
  await page.getByText('Your choice was saved.').waitFor()
  assert(await page.getByRole('checkbox').first().isChecked())
  await inspect(page, '14-notices')

  await page.goto('/records/maple-scribe')
  await inspect(page, '14-record')

  step('send a request in the explorer, without a key in the browser')
  await page.goto('/docs/search?q=history+402')
  await inspect(page, '14-search')
  await page.goto('/docs/reference/getVerificationHistory')
  await page.getByRole('tab', { name: 'Python' }).click()
  await inspect(page, '14-reference')
  await page.goto('/docs/reference/getOpportunity')
  assert(await page.getByText('from opportunity_data import').isVisible(), 'the language is remembered')
  await page.goBack()
  await page.getByRole('link', { name: 'Try it in the explorer' }).click()
  assert.equal(await page.getByLabel('id', { exact: true }).inputValue(), 'maple-scribe')
  await inspect(page, '14-explorer')
  await press('Send request')
  await page.getByText('402 Payment Required').waitFor()
  await inspect(page, '14-explorer-response')
  await page.getByRole('button', { name: 'Copy curl' }).press('Enter')
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^curl .*maple-scribe\/history/)

  await page.goto('/account')
  await inspect(page, '15-home')
  await follow('Plan')
  await inspect(page, '16-plan')

  step('rotate: both keys work; revoke: the next call is refused')
  await follow('Keys')
  await inspect(page, '17-keys')
  await page.getByRole('link', { name: /^Rotate/ }).first().click()
  await inspect(page, '18-rotate')
  await press('Rotate key')
  const second = await secret()
  assert.notEqual(first, second)
  assert.equal((await call(first)).status, 200)
  assert.equal((await call(second)).status, 200)
  await follow("I've saved my key")
  await inspect(page, '19-keys-in-rotation')
  await page.getByRole('link', { name: /^Revoke/ }).first().click()
  await inspect(page, '20-revoke')
  await press('Revoke key')
  assert.equal([await call(first), await call(second)].filter(a => a.body.error?.code === 'revoked_api_key').length, 1)

  step('connect a key that is older than the account')
  const older = JSON.parse(await verb('keys', 'issue', '--tier', 'developer', '--use-case', 'before accounts', '--output', 'json'))
  assert.equal((await call(older.key)).status, 200)
  await page.goto('/account/keys/connect')
  await page.getByLabel('Key', { exact: true }).fill(older.key)
  await inspect(page, '21-connect')
  await press('Connect key')
  await page.getByRole('status').getByText('The key is connected').waitFor()
  assert.equal((await call(older.key)).body.meta.tier, 'developer')

  step('a passkey')
  const devtools = await context.newCDPSession(page)
  await devtools.send('WebAuthn.enable')
  await devtools.send('WebAuthn.addVirtualAuthenticator', { options: {
    protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true, isUserVerified: true,
    automaticPresenceSimulation: true,
  } })
  await page.goto('/account/security')
  await inspect(page, '22-security')
  await passkey()
  await mail(address, /factor|passkey/i)

  step('every other page of a person who is signed in')
  for (const name of ['email', 'password', 'authenticator', 'close', 'confirm']) {
    await page.goto(`/account/security/${name}`)
    await inspect(page, `23-security-${name}`)
  }
  await page.goto('/account/recovery-codes')
  await inspect(page, '23-recovery-codes-left')
  await page.goto('/account/keys')
  await page.locator('table.list tbody th a').first().click()
  await inspect(page, '23-one-key')
  await page.goto('/account/usage?days=90')
  await page.getByText('Show as a table').click()
  await inspect(page, '23-usage-as-a-table')

  step('sign out, and in with the passkey')
  await signOut()
  await signIn()
  await press(/passkey/i)
  await page.waitForURL(base + '/account')

  step('sign out, and in with a recovery code; it works once')
  await signOut()
  await signIn()
  await inspect(page, '24-second-step')
  await page.getByLabel('Code').fill('123456')
  await press('Sign in')
  await page.getByRole('alert').waitFor()
  await page.getByLabel('Code').fill(recovery[0].toLowerCase())
  await press('Sign in')
  await page.waitForURL(base + '/account')
  await mail(address, /recovery code/i)
  await signOut()
  await signIn()
  await page.getByLabel('Code').fill(recovery[0])
  await press('Sign in')
  await page.getByRole('alert').waitFor()
  await page.goto('/account/lost-authenticator')
  await inspect(page, '25-lost-authenticator')
  await page.goto('/account/forgot')
  await inspect(page, '26-forgotten-password')
  await page.getByLabel('Email address').fill(address)
  await press('Send link')
  const reset = (await mail(address, /password/i)).link
  await page.goto(reset)
  await inspect(page, '26-new-password')
  await page.goto(reset.replace(/token=.*/, 'token=gone'))
  await inspect(page, '26-link-that-is-gone')
  await page.goto('/account/nothing-here')
  await inspect(page, '27-nothing-here')

  step('what people did is in the audit log')
  const log = await verb('audit', '--output', 'json')
  for (const action of ['person.sign_up', 'key.request', 'terms.accept', 'key.approve', 'key.rotate', 'key.revoke', 'factor.add', 'recovery_code.use']) {
    assert.ok(log.includes(`"${action}"`), `no ${action} in ${log}`)
  }
  for (const [what, text] of Object.entries({ 'the log': log, 'the address bar': page.url() })) {
    for (const hidden of [first, second, older.key, seed, password, recovery[0]]) assert.ok(!text.includes(hidden), `${hidden} in ${what}`)
  }
  assert.deepEqual(faults, [])
} catch (error) {
  await page.screenshot({ path: `${process.env.WALK_ARTIFACTS}/failed-walk.png`, fullPage: true }).catch(() => {})
  console.error(`at ${page.url()}\n${await page.locator('main').innerText({ timeout: 1000 }).catch(() => '')}\n`, faults)
  throw error
} finally {
  await browser.close()
}

async function signOut() {
  await page.getByRole('button', { name: 'Sign out', exact: true }).click()
}

async function signIn() {
  await page.goto('/account/sign-in')
  await page.getByLabel('Email address').fill(address)
  await page.getByLabel('Password').fill(password)
  await press('Continue')
}

async function passkey() {
  await follow('Add a passkey')
  await page.getByLabel('Name').fill('Laptop')
  await inspect(page, '23-add-a-passkey')
  await press('Add passkey')
  await page.getByRole('rowheader', { name: 'Laptop', exact: true }).waitFor()
}

// What the walks share: a browser that reports every fault of a page, the mails and codes of a person, and the operator's verbs.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { chromium } from 'playwright-core'

const env = name => {
  assert.ok(process.env[name], `${name} is not set: the Go test that starts this sets it`)
  return process.env[name]
}
export const base = env('WALK_BASE_URL')
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const artifacts = env('WALK_ARTIFACTS')
await mkdir(artifacts, { recursive: true })

export const desktop = { width: 1280, height: 900 }
export const phone = { width: 360, height: 740 }

export const launch = () => chromium.launch({ executablePath: env('WALK_CHROMIUM'), args: ['--no-sandbox'] })

// step prints what the walk does now and the seconds since its start.
export const step = name => console.log(`- ${(performance.now() / 1000).toFixed(1)} s: ${name}`)

// person opens a browser context of its own and collects what goes wrong in it.
export async function person(browser, options = {}) {
  const context = await browser.newContext({ baseURL: base, viewport: desktop, timezoneId: 'America/Toronto', ...options })
  context.setDefaultTimeout(20_000)
  await context.route(url => url.origin !== base, route => route.abort()) // nothing of a page comes from elsewhere
  const faults = []
  context.on('requestfailed', request => {
    const why = request.failure()?.errorText
    if (why !== 'net::ERR_ABORTED') faults.push(`request failed: ${request.url()} ${why}`) // which is what leaving a page looks like
  })
  context.on('weberror', error => faults.push(`script error: ${error.error()}`))
  context.on('console', message => {
    if (/content security policy|refused to/i.test(message.text())) faults.push(message.text())
  })
  return { context, page: await context.newPage(), faults }
}

// check requires that the page does not scroll sideways, and passes axe-core with the given options: at desktop width in dark, and at phone
// width in light. With WALK_PICTURES it saves a picture of each width and color scheme.
async function check(page, name, { desktopRules, phoneRules }) {
  await page.waitForLoadState() // without its style sheet, a page is not what people see
  await page.evaluate(axe) // through the debugger, which the page's policy does not bind
  for (const [form, size, colorScheme, rules] of [['desktop', desktop, 'dark', desktopRules], ['phone', phone, 'light', phoneRules]]) {
    await page.setViewportSize(size)
    for (const scheme of process.env.WALK_PICTURES ? ['light', 'dark'] : []) {
      await page.emulateMedia({ colorScheme: scheme })
      await page.screenshot({ path: path.join(artifacts, `${name}-${form}-${scheme}.jpeg`), quality: 70, fullPage: true })
    }
    await page.emulateMedia({ colorScheme })
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
    assert.ok(wide <= 0, `${name} scrolls sideways by ${wide} pixels at ${form} width`)
    if (!rules) continue
    const { violations } = await page.evaluate(runOnly => globalThis.axe.run({ runOnly, resultTypes: ['violations'] }), rules) // lists the elements of no other results
    const serious = violations.filter(v => v.impact === 'serious' || v.impact === 'critical' || v.tags.some(t => t.startsWith('wcag')))
    assert.deepEqual(serious.map(v => `${v.id}: ${v.nodes.map(n => n.html).join(' | ')}`), [], `${name} at ${form} width, ${colorScheme}`)
  }
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize(desktop)
}

// tour checks every page of the sitemap.
export async function tour(page) {
  const sitemap = await (await fetch(base + '/sitemap.xml')).text()
  const paths = [...sitemap.matchAll(/<loc>([^<]*)</g)].map(found => new URL(found[1]).pathname)
  assert.ok(paths.length > 30, sitemap)
  for (const at of paths) {
    await page.goto(at)
    await check(page, `public${at.replaceAll('/', '-')}`, { desktopRules: ['color-contrast'] }) // all rules: make lighthouse
  }
}

const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
// The rules whose outcome depends on layout or colors, and those of what only phones show: a menu and links.
const layoutRules = ['color-contrast', 'link-in-text-block', 'target-size', 'scrollable-region-focusable', 'aria-hidden-focus', 'link-name', 'button-name', 'summary-name']

// inspect checks the page with all rules of accessibility at desktop width, and with those that may differ there at phone width. The bar of
// a review is at the page's end meanwhile: axe-core would take what the bar covers, until the page scrolls, for hidden.
export async function inspect(page, name) {
  const stick = position => page.evaluate(position => {
    for (const bar of document.querySelectorAll('.bar, .bar > .row')) bar.style.setProperty('position', position)
  }, position)
  await stick('static')
  await check(page, name, { desktopRules: rules, phoneRules: layoutRules })
  await stick('')
}

// eventually asks until the answer is not empty.
export async function eventually(what, ask) {
  for (let i = 0; i < 1500; i++) {
    const answer = await ask()
    if (answer) return answer
    await pause(20)
  }
  assert.fail(`waited in vain for ${what}`)
}

const read = new Set() // mails that were opened

// mail waits for a mail to the address whose subject matches, and gives its decoded plain text.
export function mail(address, subject) {
  const dir = env('WALK_MAIL_DIR')
  return eventually(`a mail to ${address}: ${subject}`, async () => {
    const names = await readdir(dir).catch(() => [])
    for (const name of names.filter(n => n.endsWith('.eml') && !read.has(n)).sort()) {
      const text = plain(await readFile(path.join(dir, name), 'utf8'))
      if (text.to.includes(address) && subject.test(text.subject)) {
        read.add(name)
        return text
      }
    }
  })
}

// plain is enough of MIME for the mails of this project.
function plain(message) {
  const [head, ...rest] = message.replaceAll('\r\n', '\n').split('\n\n')
  const unfolded = head.replace(/\n[ \t]+/g, ' ')
  const field = name => unfolded.match(new RegExp(`^${name}:\\s*(.*)$`, 'im'))?.[1] ?? ''
  const boundary = unfolded.match(/boundary="?([^";\n]+)/)?.[1]
  const part = rest.join('\n\n').split(`--${boundary}`).find(p => /^\s*content-type:\s*text\/plain/im.test(p)) ?? ''
  const body = part.slice(part.indexOf('\n\n') + 2)
  const text = /quoted-printable/i.test(part)
    ? body.replace(/=\n/g, '').replace(/((?:=[0-9A-F]{2})+)/g, run => Buffer.from(run.replaceAll('=', ''), 'hex').toString())
    : /base64/i.test(part) ? Buffer.from(body, 'base64').toString() : body
  return { to: field('to'), subject: words(field('subject')), text, link: text.match(/https?:\/\/\S+/)?.[0] }
}

// words decodes the encoded words of a header (RFC 2047).
function words(value) {
  return value.replace(/=\?utf-8\?([qb])\?([^?]*)\?=\s*/gi, (_, how, text) => /b/i.test(how)
    ? Buffer.from(text, 'base64').toString()
    : Buffer.from(text.replaceAll('_', ' ').replace(/=([0-9A-F]{2})/g, (_, h) => String.fromCharCode(parseInt(h, 16))), 'latin1').toString())
}

let lastStep = 0

// code computes the next TOTP code of a secret (RFC 6238). Each works once, so a second one within 30 seconds is that of the next step,
// which the service accepts as that of a clock a little ahead.
export async function code(secret) {
  const bits = [...secret.replace(/[\s=]/g, '').toUpperCase()].map(c => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0')).join('')
  const key = Buffer.from(bits.match(/.{8}/g).map(byte => parseInt(byte, 2)))
  const interval = await eventually('a code that was not used', () => {
    const now = Math.floor(Date.now() / 30_000)
    const next = Math.max(now, lastStep + 1)
    return next <= now + 1 && next
  })
  lastStep = interval
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(interval))
  const hash = createHmac('sha1', key).update(counter).digest()
  const at = hash[19] & 15
  return String((hash.readUInt32BE(at) & 0x7fffffff) % 1_000_000).padStart(6, '0')
}

// verb runs an operator's verb and gives what it printed.
export async function verb(...args) {
  const { stdout } = await promisify(execFile)(env('WALK_OPPORTUNITY'), args)
  return stdout
}

// call asks the API with a key.
export async function call(key, where = '/api/v1/opportunities') {
  const answer = await fetch(base + where, { headers: { Authorization: `Bearer ${key}` } })
  return { status: answer.status, headers: answer.headers, body: await answer.json() }
}

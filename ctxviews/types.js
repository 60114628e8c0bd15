/** The types that the modules share; nothing here runs.
 *
 *  @typedef {import("./engine/circuit.js").Circuit} Circuit
 *  @typedef {import("./engine/fixedQuery.js").FixedQueryLayer | LearnedLayer} Layer
 *  @typedef {import("./engine/absolutePositions.js").LearnedLayer} LearnedLayer
 *  @typedef {import("./engine/neuron.js").NeuronPredictor} NeuronPredictor
 *  @typedef {import("./engine/reading.js").LayerReader} LayerReader
 *  @typedef {import("./engine/reading.js").Reading} Reading
 *  @typedef {import("./ui/plot.js").Chart} Chart
 *
 *  @typedef {ArrayLike<number>} Numbers
 *  @typedef {{name: string, domain: string, title: string, ids: Int32Array}} Passage
 *  @typedef {{domain: string, mean: number, values: number[], passages: number[]}} DomainResponse
 *  @typedef {{inside: Float64Array[], scale: number, beside?: Float64Array, stream?: Float64Array}} Attended
 *    what each head puts together inside, and the LayerNorm-2 scale behind what all of them write; where the
 *    layer has it, the residual stream that the neurons read, without the heads (`beside`) and with them
 *  @typedef {{chosen: number, others: number, own: number, bias: number, pre: number, post: number}} Whole
 *    a neuron's pre-activation, its terms (what the chosen heads and the others add, then the query's own
 *    token and position), and its output
 *  @typedef {{denominators: Numbers, scale: number}} Calibration one denominator a head
 *  @typedef {{head: number, kernel: number, content: number, denominator: number, value: number,
 *    adds: number}} Part what a source gives a neuron through one head: `value` is what the token would add
 *    if the head attended to nothing else
 *  @typedef {{top: Float64Array, mean: Float64Array, tokens: Int32Array}} Ranked
 *    `top` and `mean` neuron by neuron; `tokens` has the same number for each neuron, the largest first
 *
 *  @typedef Seen a text, as the heads at a destination read it
 *  @property {(heads: number[]) => Float64Array[]} contents content_h of every source, a row a head
 *  @property {(head: number, weights: Numbers) => Float64Array} inside the sources' values, weighed
 *  @property {(heads: number[], inner: Float64Array[]) => (source: number, k: number) => number} along
 *    a source's value in heads[k] in the direction inner[k]
 *  @property {() => Attended} own what the text's own denominators make of it
 *
 *  @typedef Split what stands in for the heads at n where `token` stands (ctxlib.decompose)
 *  @property {number} reach tokens of a text that are read: n + 1, or more where sources stand on
 *    both sides
 *  @property {Float64Array[]} kernels one row a head over the sources
 *  @property {() => Calibration} calibrated by the calibration text, cut here
 *  @property {(ids: Numbers, out: Float64Array) => Generator<void>} scores log content of tokens,
 *    token after token
 *  @property {(ids: Numbers, heads: number[], inner: Float64Array[], out: Float64Array) =>
 *    Generator<void>} through values of tokens along a direction inside each head
 *  @property {(ids: Numbers) => Seen} seen
 *
 *  @typedef {{id: number, denominators: number[], scale: number}} Destination
 *  @typedef {{family: string, because: string, effectiveTokens: number, halfMass: number,
 *    unevenness: number, copyPreference: number | null}} Family a head's, and the numbers that it follows from
 *  @typedef {{name: string, type: string, shape: number[], offset: number}} TensorEntry
 *  @typedef {{
 *    format: string, version: number, tensors: TensorEntry[], model: string, vocab_size: number,
 *    d_model: number, heads: number, d_head: number, neurons: number, positions: number, eps: number,
 *    n: number, largest: number, stable: number[], destinations: Destination[],
 *    calibration: {name: string, ids: number[]}, families: Family[],
 *    passages: {name: string, domain: string, title: string}[], untrained: number[],
 *    vocab: string[], bos: number, byte_level: boolean, words?: string, added?: [string, boolean][], own?: number,
 *    folder?: string, layer?: number}} CommonHeader
 *    its further parts, where it has some, lie in a folder beside it, named for what it holds
 *  @typedef {CommonHeader & {C: number, attn_scale: number, finer: number, act_fn?: string}} LayerHeader of
 *    weights
 *  @typedef {CommonHeader & {length: number, shared?: number, norms?: boolean,
 *   normsHeads?: boolean}} FixedQueryHeader of one destination, the
 *    rarer tokens `shared` a file
 *  @typedef {(name: string, onProgress: (share: number) => void, signal?: AbortSignal) =>
 *    Promise<Record<string, any>>} FetchPart gives the tensors of such a part
 *  @typedef {{onProgress?: (share: number) => void, signal?: AbortSignal}} Bringing
 *
 *  @typedef {{heads: number[], n: number, mean: Float64Array, sd: Float64Array}} Reference of every neuron
 *  @typedef {{text: string, pieces: {id: number, text: string}[], stretches: string[],
 *    reading: Reading}} Taken a text, all its tokens with their stretches of it, and those that are read
 *
 *  @typedef {Pick<import("@anywidget/types").AnyModel, "set" | "on" | "off" | "save_changes" | "send"> & {
 *    get: (name: string, model?: string) => any, first?: Record<string, any>, unshared?: string[], reset?: () => void,
 *    link?: (page: string, state: Record<string, any>) => string | null}} Model of the plain
 *    anywidget protocol; what a page adds to it (`page.js`) may be absent
 *  @typedef {(...names: string[]) => boolean} Changed whether one of these fields of a state is another
 *    than last time; at first, every one is
 *  @typedef {{page: string, label: string, state: Record<string, any>}} Way
 *  @typedef {{at: (event: MouseEvent) => number | null, held: () => number,
 *    show: (place: number) => void, hold: (place: number | null) => void}} Hand `at` is the place under
 *    the pointer, `held` the one that is read where nobody points; `hold` lets go of null
 *  @typedef {{label: string, style: Record<string, any>}} Mark what a line means */

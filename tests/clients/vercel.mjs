// The AI SDK of Vercel.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, generateText, isStepCount, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { BASE, KEY, MODEL, check, run } from "./cases.mjs";

const provider = createOpenAICompatible({
  name: "aicodebox", baseURL: BASE, apiKey: KEY, includeUsage: true, supportsStructuredOutputs: true });
const model = provider.chatModel(MODEL);
const steps = isStepCount ?? stepCountIs;
const Event = z.object({ name: z.string(), n: z.number().int() });
const weather = (called) => ({
  get_weather: tool({
    description: "The weather in a city",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => { called.push(city); return "sunny"; },
  }),
});

await run("vercel", {
  "generateText": async () => {
    const answer = await generateText({ model, prompt: "hi", maxRetries: 0 });
    check(answer.text.startsWith("hello") && answer.usage.totalTokens > 0, answer.usage);
  },
  "streamText with usage": async () => {
    const answer = streamText({ model, prompt: "hi", maxRetries: 0 });
    let text = "";
    for await (const piece of answer.textStream) text += piece;
    check(text.includes("agent") && (await answer.usage).totalTokens > 0, text);
    check((await answer.finishReason) === "stop", "finishReason");
  },
  "a tool and its result": async () => {
    const called = [];
    const answer = await generateText({ model, prompt: "weather?", tools: weather(called), stopWhen: steps(3), maxRetries: 0 });
    check(called.length === 1 && answer.text, called);
  },
  "a streamed tool and its result": async () => {
    const called = [];
    const answer = streamText({ model, prompt: "weather?", tools: weather(called), stopWhen: steps(3), maxRetries: 0 });
    let text = "";
    for await (const piece of answer.textStream) text += piece;
    check(called.length === 1 && text, called);
  },
  "an object": async () => {
    const answer = await generateText({ model, prompt: "hi", output: Output.object({ schema: Event }), maxRetries: 0 });
    check(Event.safeParse(answer.output).success, answer.output);
  },
  "a crash": async () => {
    const error = await generateText({ model, prompt: "STUB_FAIL", maxRetries: 0 }).then(() => undefined, (error) => error);
    check(error?.statusCode === 500 && error.message.includes("exit code 3"), String(error));
  },
  "a streamed crash": async () => {
    const errors = [];
    const answer = streamText({ model, prompt: "STUB_FAIL", maxRetries: 0, onError: ({ error }) => errors.push(error) });
    for await (const _piece of answer.textStream) { /* to its end */ }
    check(errors.length === 1, errors);
  },
});

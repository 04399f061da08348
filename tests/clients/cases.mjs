// Runs cases one after another and says how each went.
export const BASE = process.env.GW_BASE;
export const KEY = process.env.GW_KEY;
export const MODEL = process.env.GW_MODEL;

export const check = (holds, why) => {
  if (!holds) throw new Error(`ASSERT ${typeof why === "string" ? why : JSON.stringify(why)}`);
};

export const run = async (client, cases) => {
  for (const [name, work] of Object.entries(cases)) {
    try {
      await work();
      console.log(`PASS | ${client} | ${name}`);
    } catch (error) {
      console.log(`FAIL | ${client} | ${name} | ${error?.name}: ${String(error?.message).slice(0, 300)}`);
    }
  }
};

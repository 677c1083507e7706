export default async function Greeted({ searchParams }) {
  return <h2>hello {(await searchParams).name}</h2>;
}
